import { Argument, type Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";
import { consentArguments, parseConsentChanges } from "../companion/remote/consent-arguments.ts";

export function addRemoteConsent(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("consent")
      .summary("show or change which data may leave this machine, for all providers")
      .description(
        "Shows or changes the kinds of data that may be sent to providers: prompt is the text that you and your programs write, the other scopes are data that the companion adds to it. A request that contains data of a disallowed scope is not sent at all. Revoking a scope also aborts the requests in progress that use it.",
      )
      .addArgument(
        new Argument("[scope...]", "scopes, followed by on or off; or all, or none").choices(
          consentArguments,
        ),
      )
      .option("--json", "print it as JSON"),
    [
      ["berth remote consent", "show the allowed scopes"],
      ["berth remote consent prompt on", "allow your messages to be sent"],
      ["berth remote consent prompt files on mail off", "change several scopes"],
      ["berth remote consent none", "let no data leave this machine"],
    ],
  ).action(async (words: string[], flags: { json?: boolean }) => {
    const changes = parseConsentChanges(words);
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseRemoteReport } = await import("../../client/bus/remote-wire.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      for (const { scope, isAllowed } of changes) await client.setConsent(scope, isAllowed, signal);
      const { consent } = parseRemoteReport(await client.state(signal));
      if (flags.json === true) return cli.print(JSON.stringify({ v: 1, consent }, null, 2));
      const { showConsent } = await import("../companion/remote/show-remote.ts");
      const options = { colours: cli.colours, nowMs: cli.io.now(), width: cli.io.columns };
      await cli.print(showConsent(consent, options));
    });
  });
}
