import type { Command } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { Kind } from "../../resources/kinds.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { parseReferences } from "../resource-references.ts";
import { parseStackNames } from "../stacks/stack-words.ts";

export function addDescribe(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("describe")
      .summary("show the details of a resource: status, conditions, containers, events")
      .description(
        "Shows the details of a resource: its status and the reason for it, its containers, revisions and last events.",
      )
      .argument("<kind>", "kind, KIND/NAME, or the name of an app")
      .argument("[name...]", "names"),
    [
      ["berth describe app hello", "show the app hello"],
      ["berth describe hello", "show the app hello"],
      ["berth describe stack/blog", "show a stack and its apps"],
      ["berth describe model small", "show files, memory and state of a model"],
      ["berth describe secret/db", "show keys and users of a secret, never its values"],
    ],
  ).action(async (kindWord: string, names: string[]) => {
    const stacks = parseStackNames([kindWord, ...names], "describe");
    if (stacks) return describeStacks(cli, stacks);
    const references = parseReferences([kindWord, ...names], true);
    const client = await cli.connect();
    let isFirst = true;
    for (const { kind, names: wanted } of references) {
      if (wanted.length === 0)
        throw new UsageError("describe needs a name", `berth describe ${kindWord} NAME`);
      for (const name of wanted) {
        const text = await describe(cli, client, kind, name);
        await cli.print(isFirst ? text : `\n${text}`);
        isFirst = false;
      }
    }
  });
}

async function describeStacks(cli: Cli, names: readonly string[]): Promise<void> {
  const { describeStack } = await import("../stacks/stack-views.ts");
  const client = await cli.connect();
  const options = { colours: cli.colours, nowMs: cli.io.now(), width: cli.io.columns };
  const stacks = await Promise.all(names.map((name) => client.stacks.get(name)));
  await cli.print(stacks.map((stack) => describeStack(stack, options)).join("\n\n"));
}

async function describe(cli: Cli, client: Client, kind: Kind, name: string): Promise<string> {
  const options = { colours: cli.colours, nowMs: cli.io.now(), width: cli.io.columns };
  if (kind === "App") {
    const { describeApp } = await import("../views/describe-app.ts");
    const [app, revisions] = await Promise.all([
      client.apps.get(name),
      client.apps.revisions(name),
    ]);
    return describeApp(app, revisions.revisions, options);
  }
  if (kind === "Model") {
    const { describeModel } = await import("../views/describe-model.ts");
    const { assistantUrl } = await import("../models/assistant-url.ts");
    const [model, url] = await Promise.all([client.models.get(name), assistantUrl(client)]);
    return describeModel(model, url, options);
  }
  const { describeOther } = await import("../views/describe-secret-or-template.ts");
  const events = client.events.list({ kind, name, limit: 20 });
  if (kind === "Secret") {
    const [secret, apps, log] = await Promise.all([
      client.secrets.get(name),
      client.resources.list("App"),
      events,
    ]);
    return describeOther.secret(secret, apps.items, log.events, options);
  }
  const [template, log] = await Promise.all([client.templates.get(name), events]);
  return describeOther.template(template, log.events, options);
}
