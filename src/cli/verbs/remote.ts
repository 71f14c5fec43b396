import { Argument, type Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples, addJsonOptions, isJsonOutput, type JsonFlags } from "../command-options.ts";
import { consentArguments, parseConsentChanges } from "../companion/remote/consent-arguments.ts";
import type { ViewOptions } from "../output/format-sections.ts";
import { addRemoteKey } from "./remote-key.ts";
import { addRemoteLogin } from "./remote-login.ts";

export function addRemote(program: Command, cli: Cli): void {
  const remote = addExamples(
    program
      .command("remote")
      .helpCommand(false)
      .summary("manage remote providers of models: keys, sign-ins and consent")
      .description(
        "Manages the remote providers of models that your companion may use (`berth assistant --user`). Nothing is sent to a provider before you have allowed it: docs/remote.md. The name of a provider's model is remote:PROVIDER:MODEL, in `berth ask`, in `berth chat` and on port 7778.",
      ),
    [
      ["berth remote", "list providers, and the data that may be sent"],
      ["berth remote login openrouter", "sign in with the browser"],
      ["berth remote add work https://llm.example.org/v1", "add a provider"],
      ["berth remote key work < key.txt", "set its key"],
      ["berth remote consent prompt on", "allow your messages to be sent to providers"],
    ],
  );
  addList(remote, cli);
  addAdd(remote, cli);
  addRemoveProvider(remote, cli);
  addRemoteKey(remote, cli);
  addRemoteConsent(remote, cli);
  addRemoteLogin(remote, cli);
  addListModels(remote, cli);
}

function addList(remote: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      remote
        .command("list", { isDefault: true })
        .alias("ls")
        .summary("list providers, and the data that may leave this machine")
        .description(
          "Lists the providers with the state of their credential and of their last answer, and the six scopes of data with your consent.",
        ),
    ),
    [["berth remote ls -o json", "print the list as JSON, without keys"]],
  ).action(async (flags: JsonFlags) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      const document = await client.state(signal);
      if (isJsonOutput(flags)) {
        const { sanitizeJson } = await import("../companion/untrusted-text.ts");
        return cli.print(sanitizeJson(document));
      }
      const { parseRemoteReport } = await import("../../client/bus/remote-wire.ts");
      const { showRemote } = await import("../companion/remote/show-remote.ts");
      const options: ViewOptions = {
        colours: cli.colours,
        nowMs: cli.io.now(),
        width: cli.io.columns,
      };
      await cli.print(showRemote(parseRemoteReport(document), options));
    });
  });
}

function addAdd(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("add")
      .summary("add a provider")
      .description(
        "Adds an endpoint that follows the chat-completions convention. The address must use https, or http for a server on this machine. A host with a private address is allowed, because you name it yourself.",
      )
      .argument("<id>", "id of the provider: lower-case letters, digits, - and _")
      .argument("<address>", "base URL, such as https://llm.example.org/v1")
      .option("--name <text>", "display name"),
    [
      ["berth remote add work https://llm.example.org/v1", "add a provider on the internet"],
      [
        "berth remote add local http://127.0.0.1:8080/v1 --name Workshop",
        "add one on this machine",
      ],
    ],
  ).action(async (id: string, address: string, flags: { name?: string }) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      await client.addProvider(id, flags.name ?? id, address, signal);
      await cli.print(`provider ${id} is added`);
      if (cli.io.errorIsTerminal)
        cli.note(cli.errorColours.dim(`\`berth remote key ${id}\` sets the key of this provider`));
    });
  });
}

function addRemoveProvider(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("rm")
      .alias("remove")
      .summary("remove a provider, and its key")
      .argument("<provider>", "id of a provider; those built into Berth cannot be removed"),
    [["berth remote rm work", "remove the provider and its key"]],
  ).action(async (id: string) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      await client.removeProvider(id, signal);
      await cli.print(`provider ${id} and its key are removed`);
    });
  });
}

function addListModels(remote: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      remote
        .command("models")
        .summary("list the models that a provider offers now")
        .argument("<provider>", "id of a provider"),
    ),
    [["berth remote models openrouter", "list the names of the provider's models"]],
  ).action(async (id: string, flags: JsonFlags) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseModelIds } = await import("../../client/bus/remote-wire.ts");
    const { sanitizeJson, sanitizeLine } = await import("../companion/untrusted-text.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      const document = await client.listModels(id, signal);
      const models = parseModelIds(document);
      if (isJsonOutput(flags)) return cli.print(sanitizeJson(document));
      if (models.length === 0) return cli.note(`provider ${id} lists no models`);
      await cli.print(models.map((model) => sanitizeLine(`remote:${id}:${model}`)).join("\n"));
    });
  });
}

function addRemoteConsent(remote: Command, cli: Cli): void {
  const command = addJsonOptions(
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
      ),
    "print it as JSON",
  );
  addExamples(command, [
    ["berth remote consent", "show the allowed scopes"],
    ["berth remote consent prompt on", "allow your messages to be sent"],
    ["berth remote consent prompt files on mail off", "change several scopes"],
    ["berth remote consent none", "let no data leave this machine"],
  ]).action(async (words: string[], flags: JsonFlags) => {
    const changes = parseConsentChanges(words);
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseRemoteReport } = await import("../../client/bus/remote-wire.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      for (const { scope, isAllowed } of changes) await client.setConsent(scope, isAllowed, signal);
      const { consent } = parseRemoteReport(await client.state(signal));
      if (isJsonOutput(flags)) return cli.print(JSON.stringify({ v: 1, consent }, null, 2));
      const { showConsent } = await import("../companion/remote/show-remote.ts");
      const options = { colours: cli.colours, nowMs: cli.io.now(), width: cli.io.columns };
      await cli.print(showConsent(consent, options));
    });
  });
}
