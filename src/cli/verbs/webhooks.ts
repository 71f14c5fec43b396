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
      .summary("tell other programs what happens")
      .description(
        "Sends what happens to apps (deployed, failed, reverted, unhealthy and more) to URLs, signed, and tried again where nobody answers.",
      ),
    [
      ["berth webhooks create https://chat.example.org/hook", "tell it of everything"],
      ["berth webhooks create http://10.0.0.5:9000 --event failed --app shop", "of this only"],
      ["berth webhooks deliveries wh_1f0c", "what was sent, and how it went"],
    ],
  );
  addList(webhooks, cli);
  addCreate(webhooks, cli);
  webhooks
    .command("rm")
    .alias("delete")
    .summary("tell a receiver no more")
    .argument("<webhook>", "its id")
    .action(async (id: string) => {
      await (await cli.connect()).webhooks.delete(id);
      await cli.print(`webhook ${id} deleted`);
    });
  webhooks
    .command("test")
    .summary("send a test event")
    .argument("<webhook>", "its id")
    .action(async (id: string) => {
      const delivery = await (await cli.connect()).webhooks.test(id);
      await cli.print(`delivery ${delivery.id} queued`);
      cli.note(cli.errorColours.dim(`how it went: berth webhooks deliveries ${id}`));
    });
  addDeliveries(webhooks, cli);
  webhooks
    .command("redeliver")
    .summary("send something once more")
    .argument("<webhook>", "its id")
    .argument("<delivery>", "id of what was sent")
    .action(async (id: string, delivery: string) => {
      await (await cli.connect()).webhooks.redeliver(id, delivery);
      await cli.print(`delivery ${delivery} queued again`);
    });
}

function addList(webhooks: Command, cli: Cli): void {
  webhooks
    .command("ls", { isDefault: true })
    .alias("list")
    .summary("list receivers")
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
          empty: "no webhooks yet; make one with `berth webhooks create URL`",
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
      .summary("tell a receiver of events")
      .argument("<url>", "http or https")
      .addOption(
        new Option("--event <event>", "only these; can be given several times")
          .choices(webhookEvents)
          .argParser(parseEvents),
      )
      .option("--app <name>", "only of these apps; can be given several times", collectValues)
      .option("--secret <source>", "sign with @FILE or - (standard input); default: a new one")
      .addOption(
        new Option("-o, --output <format>", "print in another form").choices(["json", "yaml"]),
      ),
    [
      ["berth webhooks create https://ci.example.org/berth --event deployed", "one event"],
      ["berth webhooks create https://ci.example.org/berth --secret @key", "a secret of your own"],
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
      cli.note(cli.errorColours.dim("The secret is shown this once only."));
    }
    cli.note(cli.errorColours.dim(`try it: berth webhooks test ${created.id}`));
  });
}

/** Commander checks choices only while it has no parser of its own. */
function parseEvents(value: string, previous: unknown): string[] {
  const known: readonly string[] = webhookEvents;
  if (!known.includes(value)) throw new InvalidArgumentError(`allowed: ${known.join(", ")}`);
  return [...(Array.isArray(previous) ? previous.map(String) : []), value];
}

/** A secret on the command line would stand in the shell's history and in the list of processes. */
async function readSecret(cli: Cli, source: string): Promise<string> {
  if (source !== "-" && !source.startsWith("@"))
    throw new UsageError("--secret takes @FILE or -", "the secret itself would stand in history");
  const { secret = "" } = await readPairs(cli, [`secret=${source}`]);
  return secret.replace(/\r?\n$/, "");
}

function addDeliveries(webhooks: Command, cli: Cli): void {
  webhooks
    .command("deliveries")
    .summary("show what was sent to a receiver, and how it went")
    .argument("<webhook>", "its id")
    .option("--limit <count>", "how many at most", integerBetween(1, 200), 20)
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
