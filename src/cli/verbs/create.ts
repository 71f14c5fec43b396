import type { Command } from "commander";
import type { CreateAppBody } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  addWaitOptions,
  collectValues,
  integerBetween,
  outputOption,
} from "../command-options.ts";
import { finishDeploy, readBaseline } from "../deploy/finish-deploy.ts";
import type { AppWriteFlags } from "../deploy/report-app-write.ts";
import { pairsToObject, parseVariables } from "../key-value-pairs.ts";
import { formatReference, parseAppName } from "../resource-references.ts";

interface CreateFlags extends AppWriteFlags {
  readonly image?: string;
  readonly template?: string;
  readonly parameter?: readonly string[];
  readonly port?: number;
  readonly domain?: string;
  readonly env?: readonly string[];
  readonly label?: readonly string[];
  readonly stack?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

export function addCreate(program: Command, cli: Cli): void {
  const command = program
    .command("create")
    .summary("create an app from an image or a template")
    .description(
      "Creates an app from an image, or from a template of the catalog, and waits until it is ready. For all fields of an app, write a spec file and use `berth apply`.",
    )
    .argument("<app>", "name of the new app")
    .option("--image <reference>", "image, such as nginx:1.27")
    .option("--port <port>", "port on which the app listens", integerBetween(1, 65_535))
    .option("--domain <name>", "host name; default: NAME.<base domain>")
    .option(
      "-e, --env <NAME=value>",
      "environment variable; NAME=secret:SECRET/KEY reads it from a secret; can be repeated",
      collectValues,
    )
    .option("--label <key=value>", "label; can be repeated", collectValues)
    .option("--stack <name>", "stack of the app, whose name is then STACK-SERVICE")
    .option("--template <id>", "template of the catalog: see `berth templates`")
    .option(
      "-p, --parameter <key=value>",
      "parameter of the template; can be repeated",
      collectValues,
    )
    .option("--dry-run", "print what would happen, and change nothing")
    .option("--force", "replace an app of this name, also one that a template or an import made")
    .addOption(outputOption());
  addExamples(addWaitOptions(command).option("--no-wait", "return once the app is stored"), [
    ["berth create web --image nginx:1.27 --port 80", "create an app from an image"],
    ["berth create blog-db --stack blog --image mysql:8", "create an app of the stack blog"],
    ["berth create db --template postgres -p database=shop", "create an app from a template"],
    ["berth create web --image nginx:1.27 --port 80 -e TOKEN=secret:web/token", "use a secret"],
  ]).action(async (word: string, flags: CreateFlags) => {
    const name = parseAppName(word);
    if ((flags.image === undefined) === (flags.template === undefined))
      throw new UsageError(
        "create needs either --image or --template",
        `berth create ${name} --image IMAGE --port PORT; \`berth templates\` lists the catalog`,
      );
    if (flags.template === undefined && flags.parameter !== undefined)
      throw new UsageError("--parameter needs --template; use --env for variables");
    if (flags.template !== undefined) return createFromTemplate(cli, name, flags.template, flags);
    const client = await cli.connect();
    const baseline = await readBaseline(client, name);
    const write = await client.apps.create(createAppBody(name, flags), {
      dryRun: flags.dryRun === true,
      force: flags.force === true,
    });
    const phrases = { done: "created", already: "exists" };
    await finishDeploy(cli, client, name, write, baseline, flags, phrases);
  });
}

async function createFromTemplate(
  cli: Cli,
  name: string,
  templateId: string,
  flags: CreateFlags,
): Promise<void> {
  for (const [option, value] of Object.entries({
    port: flags.port,
    domain: flags.domain,
    env: flags.env,
    label: flags.label,
    stack: flags.stack,
  }))
    if (value !== undefined)
      throw new UsageError(
        `--${option} cannot be combined with --template`,
        "set the template's parameters with -p, and change the app afterwards with `berth edit`",
      );
  const client = await cli.connect();
  const baseline = await readBaseline(client, name);
  const write = await client.apps.fromTemplate(
    {
      template_id: templateId,
      name,
      parameters: pairsToObject(flags.parameter ?? [], "-p key=value"),
    },
    { dryRun: flags.dryRun === true, force: flags.force === true },
  );
  const others = (write.dryRun ? [] : (write.app.created ?? []))
    .map((made) => formatReference(made.kind, made.name))
    .filter((reference) => reference !== `app/${name}`);
  const done =
    others.length === 0
      ? `created from template ${templateId}`
      : `created from template ${templateId}, with ${others.join(", ")}`;
  await finishDeploy(cli, client, name, write, baseline, flags, { done, already: "exists" });
}

function createAppBody(name: string, flags: CreateFlags): CreateAppBody {
  return {
    name,
    ...(flags.stack === undefined ? {} : { stack: flags.stack }),
    ...(flags.image === undefined ? {} : { image: flags.image }),
    ...(flags.port === undefined ? {} : { port: flags.port }),
    ...(flags.domain === undefined ? {} : { domain: flags.domain }),
    ...(flags.env === undefined ? {} : { env: parseVariables(flags.env) }),
    ...(flags.label === undefined
      ? {}
      : { labels: pairsToObject(flags.label, "--label key=value") }),
  };
}
