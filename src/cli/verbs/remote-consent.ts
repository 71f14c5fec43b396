import { Argument, type Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";
import { consentArguments, parseConsentChanges } from "../companion/remote/consent-arguments.ts";

export function addRemoteConsent(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("consent")
      .summary("say what may leave this machine, for any provider")
      .description(
        "Shows, or changes, what may be sent to providers: prompt is what you and programs of yours write, the others are what is added to it from your things. A request with anything in it that is off is not sent at all. What is taken back ends what is under way by it.",
      )
      .addArgument(
        new Argument("[scope...]", "scopes, and then on or off; all; none").choices(
          consentArguments,
        ),
      )
      .option("--json", "print it as JSON"),
    [
      ["berth remote consent", "what is allowed"],
      ["berth remote consent prompt on", "what you write may be sent"],
      ["berth remote consent prompt files on mail off", "several"],
      ["berth remote consent none", "nothing may leave this machine any more"],
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
