import { type Command, InvalidArgumentError, Option } from "commander";
import { type WebhookEvent, webhookEvents } from "../../resources/webhook-events.ts";
import type { DeliveryView, WebhookView } from "../../resources/wire/webhooks.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { getStatusColour } from "../colours.ts";
import {
  addExamples,
  collectValues,
  integerBetween,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { formatAge, formatTime } from "../format-time.ts";
import { readPairs } from "../key-value-pairs.ts";
import { createListing, printDocument, printListing } from "../output/print.ts";

export function addWebhooks(program: Command, cli: Cli): void {
  const webhooks = addExamples(
    program
      .command("webhooks")
      .helpCommand(false)
      .summary("send events to other programs")
      .description(
        "Sends events of apps (deployed, failed, reverted, unhealthy and more) to URLs, with a signature, and retries deliveries that fail.",
      ),
    [
      ["berth webhooks create https://chat.example.org/hook", "send all events to a URL"],
      ["berth webhooks create http://10.0.0.5:9000 --event failed --app shop", "send some events"],
      ["berth webhooks deliveries wh_1f0c", "list the deliveries and their results"],
    ],
  );
  addList(webhooks, cli);
  addCreate(webhooks, cli);
  webhooks
    .command("rm")
    .alias("delete")
    .summary("delete a webhook")
    .argument("<webhook>", "id of the webhook")
    .action(async (id: string) => {
      await (await cli.connect()).webhooks.delete(id);
      await cli.print(`webhook ${id} deleted`);
    });
  webhooks
    .command("test")
    .summary("send a test event")
    .argument("<webhook>", "id of the webhook")
    .action(async (id: string) => {
      const delivery = await (await cli.connect()).webhooks.test(id);
      await cli.print(`delivery ${delivery.id} queued`);
      cli.note(cli.errorColours.dim(`see the result: berth webhooks deliveries ${id}`));
    });
  addDeliveries(webhooks, cli);
  webhooks
    .command("redeliver")
    .summary("send a delivery again")
    .argument("<webhook>", "id of the webhook")
    .argument("<delivery>", "id of the delivery")
    .action(async (id: string, delivery: string) => {
      await (await cli.connect()).webhooks.redeliver(id, delivery);
      await cli.print(`delivery ${delivery} queued again`);
    });
}

function addList(webhooks: Command, cli: Cli): void {
  webhooks
    .command("ls", { isDefault: true })
    .alias("list")
    .summary("list webhooks")
    .addOption(outputOption())
    .action(async (flags: { output?: OutputFormat }) => {
      const { webhooks: found } = await (await cli.connect()).webhooks.list();
      const now = cli.io.now();
      await printListing(
        cli,
        createListing<WebhookView>({
          rows: found,
          columns: [
            { header: "ID", value: (row) => row.id },
            { header: "URL", value: (row) => row.url, canShrink: true },
            { header: "EVENTS", value: (row) => row.events.join(", ") || "all", canShrink: true },
            { header: "APPS", value: (row) => row.apps.join(", ") || "all", canShrink: true },
            { header: "AGE", value: (row) => formatAge(row.created_at, now), isVolatile: true },
          ],
          name: (row) => row.id,
          document: { webhooks: found, total: found.length },
          empty: "no webhooks yet; create one with `berth webhooks create URL`",
        }),
        flags.output,
      );
    });
}

interface CreateFlags {
  readonly event?: WebhookEvent[];
  readonly app?: string[];
  readonly secret?: string;
  readonly output?: "json" | "yaml";
}

function addCreate(webhooks: Command, cli: Cli): void {
  addExamples(
    webhooks
      .command("create")
      .summary("create a webhook")
      .argument("<url>", "URL to send events to, http or https")
      .addOption(
        new Option("--event <event>", "send only this event; can be repeated")
          .choices(webhookEvents)
          .argParser(parseEvents),
      )
      .option("--app <name>", "send only events of this app; can be repeated", collectValues)
      .option(
        "--secret <source>",
        "secret to sign with, from @FILE or - (standard input); default: a new one",
      )
      .addOption(new Option("-o, --output <format>", "output format").choices(["json", "yaml"])),
    [
      ["berth webhooks create https://ci.example.org/berth --event deployed", "send one event"],
      ["berth webhooks create https://ci.example.org/berth --secret @key", "sign with your secret"],
    ],
  ).action(async (url: string, flags: CreateFlags) => {
    const secret = flags.secret === undefined ? undefined : await readSecret(cli, flags.secret);
    const created = await (await cli.connect()).webhooks.create({
      url,
      ...(flags.event === undefined ? {} : { events: flags.event }),
      ...(flags.app === undefined ? {} : { apps: flags.app }),
      ...(secret === undefined ? {} : { secret }),
    });
    if (flags.output !== undefined) return printDocument(cli, created, flags.output);
    await cli.print(`webhook ${created.id} created`);
    if (created.secret !== undefined) {
      await cli.print(`secret ${created.secret}`);
      cli.note(cli.errorColours.dim("The secret is shown only this once."));
    }
    cli.note(cli.errorColours.dim(`test it: berth webhooks test ${created.id}`));
  });
}

/**
 * Checks that each event is a known one, because Commander does not check the choices of an option with its own parser.
 */
function parseEvents(value: string, previous: unknown): string[] {
  const known: readonly string[] = webhookEvents;
  if (!known.includes(value)) throw new InvalidArgumentError(`the events are ${known.join(", ")}`);
  return [...(Array.isArray(previous) ? previous.map(String) : []), value];
}

/** Reads the secret. A secret on the command line would be in the shell's history and in the list of processes. */
async function readSecret(cli: Cli, source: string): Promise<string> {
  if (source !== "-" && !source.startsWith("@"))
    throw new UsageError(
      "--secret needs @FILE or -",
      "the secret itself would be saved in the shell's history",
    );
  const { secret = "" } = await readPairs(cli, [`secret=${source}`]);
  return secret.replace(/\r?\n$/, "");
}

function addDeliveries(webhooks: Command, cli: Cli): void {
  webhooks
    .command("deliveries")
    .summary("list the deliveries of a webhook and their results")
    .argument("<webhook>", "id of the webhook")
    .option("--limit <count>", "maximum number of deliveries", integerBetween(1, 200), 20)
    .addOption(outputOption())
    .action(async (id: string, flags: { limit: number; output?: OutputFormat }) => {
      const { deliveries } = await (await cli.connect()).webhooks.deliveries(id, flags.limit);
      const now = cli.io.now();
      await printListing(
        cli,
        createListing<DeliveryView>({
          rows: deliveries,
          columns: [
            { header: "ID", value: (row) => row.id },
            { header: "EVENT", value: (row) => row.event },
            { header: "APP", value: (row) => row.app ?? "" },
            {
              header: "STATE",
              value: (row) => row.state,
              colour: (text, row) => getStatusColour(cli.colours, row.state)(text),
            },
            { header: "ATTEMPTS", value: (row) => String(row.attempts), isRightAligned: true },
            { header: "MESSAGE", value: (row) => row.message ?? "", canShrink: true },
            { header: "AGE", value: (row) => formatAge(row.created_at, now), isVolatile: true },
          ],
          wideColumns: [
            {
              header: "NEXT ATTEMPT",
              value: (row) =>
                row.next_attempt_at === null ? "" : formatTime(row.next_attempt_at, now),
            },
          ],
          name: (row) => row.id,
          document: { deliveries, total: deliveries.length },
          empty: "nothing was sent yet",
        }),
        flags.output,
      );
    });
}
