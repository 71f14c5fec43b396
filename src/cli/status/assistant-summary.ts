import { setTimeout } from "node:timers/promises";
import type { Cli } from "../cli.ts";
import { formatFields } from "../output/format-sections.ts";
import { formatTable } from "../output/table.ts";

/**
 * The maximum number of polls while models load. Together they take 30 s. Large models on slow disks load for
 * minutes.
 */
const LOADING_POLLS_MAX = 150;
const POLL_MS = 200;

/** The fields of the ready line that the summary shows. */
interface AssistantReadyLine {
  readonly url: string;
  readonly engine: string;
  readonly data_dir: string;
  readonly version: string;
}

/** An entry of GET /v1/models. */
interface ListedModel {
  readonly id: string;
  readonly kind: string;
  readonly state: string;
  readonly context_length: number | null;
  readonly aliases: readonly string[];
  /** The reason why the model failed. */
  readonly error?: string;
}

/** Prints the models, their endpoint and commands to try, for a user who has just started the assistant. */
export async function printAssistantSummary(
  cli: Cli,
  ready: AssistantReadyLine,
  signal: AbortSignal,
): Promise<void> {
  const models = await waitForModels(ready.url, signal);
  if (signal.aborted) return;
  const { colours } = cli;
  await cli.print(
    [
      "",
      colours.bold(`Berth's assistant ${ready.version} is running.`),
      "",
      models.length === 0
        ? `No models yet: put a GGUF file into ${ready.data_dir}/models, or start with --model FILE.gguf.\n`
        : modelsText(cli, models),
      formatFields([
        ["OpenAI clients", `base URL ${ready.url}/v1, any API key`],
        ["Engine", ready.engine],
        ["Ledger", `${ready.data_dir}/ledger`],
      ]),
      "",
      colours.bold("Try next:"),
      ...(models.some((model) => canAnswer(model)) ? [`  ${curlExample(ready.url)}`] : []),
      `  bin/berth ledger tail --data-dir ${ready.data_dir}`,
      `  bin/berth ledger verify --data-dir ${ready.data_dir}`,
      "",
      colours.dim("Press Ctrl-C to stop it."),
    ].join("\n"),
  );
}

/** Returns true if this model could answer the curl command in the summary, whose request names no model. */
function canAnswer({ kind, state }: ListedModel): boolean {
  return kind === "chat" && state !== "failed";
}

function curlExample(url: string): string {
  const body = { messages: [{ role: "user", content: "Hello!" }], stream: true };
  return `curl -N ${url}/v1/chat/completions -H 'content-type: application/json' -d '${JSON.stringify(body)}'`;
}

function modelsText(cli: Cli, models: readonly ListedModel[]): string {
  const table = formatTable(
    models,
    [
      { header: "MODEL", value: ({ id }) => id },
      { header: "ALIASES", value: ({ aliases }) => aliases.join(", "), canShrink: true },
      { header: "KIND", value: ({ kind }) => kind },
      { header: "STATE", value: ({ state }) => state },
      {
        header: "CONTEXT",
        value: ({ context_length: tokens }) => (tokens === null ? "" : String(tokens)),
        isRightAligned: true,
      },
    ],
    { width: cli.io.columns },
  );
  const failures = models.flatMap(({ id, error }) =>
    error === undefined ? [] : [`${id}: ${error}`],
  );
  return failures.length === 0 ? table : `${table}\n${cli.colours.red(failures.join("\n"))}\n`;
}

async function waitForModels(url: string, signal: AbortSignal): Promise<readonly ListedModel[]> {
  for (let poll = 1; ; poll++) {
    const response = await fetch(`${url}/v1/models`, { signal });
    const { data }: { data: readonly ListedModel[] } = JSON.parse(await response.text());
    if (poll === LOADING_POLLS_MAX || data.every(({ state }) => state !== "loading")) return data;
    await setTimeout(POLL_MS, undefined, { signal });
  }
}
