import { type Command, Option } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";
import type { ViewOptions } from "../output/format-sections.ts";
import { addRemoteConsent } from "./remote-consent.ts";
import { addRemoteKey } from "./remote-key.ts";
import { addRemoteLogin } from "./remote-login.ts";

interface OutputFlags {
  readonly json?: boolean;
  readonly output?: "json";
}

export function addRemote(program: Command, cli: Cli): void {
  const remote = addExamples(
    program
      .command("remote")
      .helpCommand(false)
      .summary("models elsewhere: providers, keys, sign-ins, and what may be sent")
      .description(
        "Providers of models that are not on this machine, for your companion (`berth assistant --user`). Nothing goes to one before you have allowed it: docs/remote.md. A model of a provider is called remote:PROVIDER:MODEL, in `berth ask`, in `berth chat` and on port 7778.",
      ),
    [
      ["berth remote", "providers, and what may leave this machine"],
      ["berth remote login openrouter", "sign in with the browser"],
      ["berth remote add work https://llm.example.org/v1", "another provider"],
      ["berth remote key work < key.txt", "its key, which nobody can read again"],
      ["berth remote consent prompt on", "what you write may go to providers"],
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
        .summary("list providers, and what may leave this machine")
        .description(
          "Lists providers, whether they have a credential, how their last answer was, and the six kinds of data that may go to them or not.",
        ),
    ),
    [["berth remote ls -o json", "for scripts; no key is in it"]],
  ).action(async (flags: OutputFlags) => {
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
        "Adds an endpoint of the chat-completions convention. Its address is https on the web; http on this machine; a private one only where you write its host down here, as this does.",
      )
      .argument("<id>", "what to call it: lower-case letters, digits, - and _")
      .argument("<address>", "such as https://llm.example.org/v1")
      .option("--name <text>", "what it is called in full"),
    [
      ["berth remote add work https://llm.example.org/v1", "on the web"],
      ["berth remote add local http://127.0.0.1:8080/v1 --name Workshop", "on this machine"],
    ],
  ).action(async (id: string, address: string, flags: { name?: string }) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      await client.addProvider(id, flags.name ?? id, address, signal);
      await cli.print(`provider ${id} is added`);
      if (cli.io.errorIsTerminal)
        cli.note(cli.errorColours.dim(`\`berth remote key ${id}\` gives it a key`));
    });
  });
}

function addRemoveProvider(remote: Command, cli: Cli): void {
  addExamples(
    remote
      .command("rm")
      .alias("remove")
      .summary("remove a provider, and its key")
      .argument("<provider>", "id of a provider; one that Berth has by itself stays"),
    [["berth remote rm work", "its key is gone for good"]],
  ).action(async (id: string) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ remote: client }, signal) => {
      await client.removeProvider(id, signal);
      await cli.print(`provider ${id} is removed, and its key with it`);
    });
  });
}

function addListModels(remote: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      remote
        .command("models")
        .summary("list the models of a provider, as it says now")
        .argument("<provider>", "id of a provider"),
    ),
    [["berth remote models openrouter", "each as the name by which it is asked"]],
  ).action(async (id: string, flags: OutputFlags) => {
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

function addJsonOptions(command: Command): Command {
  return command
    .option("--json", "print what the companion says, as JSON; so does -o json")
    .addOption(new Option("-o, --output <format>", "print in another form").choices(["json"]));
}

function isJsonOutput({ json, output }: OutputFlags): boolean {
  return json === true || output === "json";
}
