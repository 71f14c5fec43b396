import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";

export function addRemoteLogin(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("login")
      .summary("sign in to a provider with your browser")
      .description(
        "Prints the address of the sign-in page, opens it if there is a desktop, and waits until you have signed in. Exit codes: 0 signed in, 1 failed, 2 usage, 3 no sign-in within five minutes, 5 not allowed.",
      )
      .argument("<provider>", "openrouter or huggingface")
      .option("--no-browser", "print the address, but do not open it"),
    [
      ["berth remote login openrouter", "sign in with the browser"],
      ["berth remote login huggingface --no-browser", "open the address yourself, on this machine"],
    ],
  ).action(async (id: string, flags: { browser: boolean }) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { signIn, reportSignIn } = await import("../companion/remote/sign-in.ts");
    const { hasDesktop, openInBrowser } = await import("../companion/remote/browser.ts");
    const { sanitizeLine } = await import("../companion/untrusted-text.ts");
    await withCompanion(
      cli,
      async ({ remote: client }, signal) => {
        const show = (url: string) => {
          cli.note(`Sign in here, within five minutes:\n  ${sanitizeLine(url)}`);
          if (flags.browser && hasDesktop(cli)) openInBrowser(cli, url);
        };
        await reportSignIn(cli, await signIn(client, id, show, signal));
      },
      "interrupted; the address stays valid until it expires, and `berth remote` shows the result",
    );
  });
  addExamples(
    remote
      .command("logout")
      .summary("sign out of a provider")
      .description("Deletes the session of a provider, and cancels a sign-in in progress.")
      .argument("<provider>", "id of a provider"),
    [["berth remote logout openrouter", "sign out of openrouter"]],
  ).action(async (id: string) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      await client.logout(id, signal);
      await cli.print(`signed out of ${id}`);
    });
  });
}
