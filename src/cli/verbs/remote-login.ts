import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";

export function addRemoteLogin(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("login")
      .summary("sign in at a provider, with the browser")
      .description(
        "Prints the address at which you sign in, opens it where there is a desktop, and waits until you have. Exit codes: 0 signed in, 1 it did not work, 2 usage, 3 nobody signed in within five minutes, 5 it was not allowed.",
      )
      .argument("<provider>", "openrouter or huggingface")
      .option("--no-browser", "only print the address"),
    [
      ["berth remote login openrouter", "and come back when the browser says so"],
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
      "left; whoever has the address can still sign in, and `berth remote` shows it",
    );
  });
  addExamples(
    remote
      .command("logout")
      .summary("forget the session of a sign-in")
      .description("Forgets a session, and ends a sign-in under way. Also where there is none.")
      .argument("<provider>", "id of a provider"),
    [["berth remote logout openrouter", "sign in anew later"]],
  ).action(async (id: string) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      await client.logout(id, signal);
      await cli.print(`signed out of ${id}`);
    });
  });
}
