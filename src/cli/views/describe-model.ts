import { formatBytes } from "../../base/units.ts";
import type { ModelDetails, ModelFileView } from "../../resources/wire/models.ts";
import { getStatusColour } from "../colours.ts";
import { formatTime } from "../format-time.ts";
import { formatFields, formatSection, type ViewOptions } from "../output/format-sections.ts";
import { toYaml } from "../output/yaml.ts";
import { formatConditionsSection, formatGeneration } from "./conditions.ts";
import { formatEventsSection } from "./events.ts";
import { formatModelStatus, formatParameterCount } from "./models.ts";

export function describeModel(
  model: ModelDetails,
  assistantUrl: string,
  options: ViewOptions,
): string {
  const { colours } = options;
  const parts = [
    formatSummary(model, options),
    ...(model.spec === null ? [] : [formatSection("Spec:", toYaml(model.spec), options)]),
    formatSection("Files:", filesText(model.files), options),
  ];
  if (model.origin === "resource") {
    parts.push(
      formatConditionsSection(model.conditions, "model", options),
      formatSection("Fields belong to:", ownersText(model), options),
      formatEventsSection(model.events, options),
    );
  }
  const lines = model.running
    ? createUsageLines(model, assistantUrl)
    : [`  berth models start ${model.name}`];
  return [
    ...parts,
    [colours.bold(model.running ? "Use it:" : "Start it:"), ...lines].join("\n"),
  ].join("\n\n");
}

function formatSummary(model: ModelDetails, options: ViewOptions): string {
  const { colours, nowMs } = options;
  const facts = factsText(model);
  return formatFields([
    ["Name", colours.bold(model.name)],
    ["ID", model.id === model.name ? undefined : model.id],
    ["Also called", model.aliases.filter((alias) => alias !== model.id)],
    ["Description", model.description ?? undefined],
    [
      "Status",
      `${getStatusColour(colours, model.status)(formatModelStatus(model))}${model.ready ? ", ready" : ""}`,
    ],
    ["Message", model.message],
    [
      "Error",
      model.error === null || model.error === model.message ? undefined : colours.red(model.error),
    ],
    ["Source", model.source ?? undefined],
    ["Revision", model.revision ?? undefined],
    ["Commit", model.commit ?? undefined],
    ["Size", sizeText(model)],
    ["Model", facts === "" ? undefined : facts],
    ["Context", contextText(model)],
    ["Memory", memoryTexts(model)],
    ["Requests at once", model.sequences === null ? undefined : String(model.sequences)],
    [
      "Generation",
      model.generation === null
        ? undefined
        : formatGeneration(model.generation, model.observed_generation ?? 0),
    ],
    ["Managed by", model.managed_by],
    ["Labels", Object.entries(model.labels).map(([key, value]) => `${key}=${value}`)],
    ["Created", model.created_at === null ? undefined : formatTime(model.created_at, nowMs)],
    ["In memory since", model.loaded_at === null ? undefined : formatTime(model.loaded_at, nowMs)],
    [
      "Next attempt",
      model.next_retry_at === null ? undefined : formatTime(model.next_retry_at, nowMs),
    ],
  ]);
}

function sizeText({ size_bytes: size, downloaded_bytes: done }: ModelDetails): string | undefined {
  if (size === null) return done === 0 ? undefined : `${formatBytes(done)} so far`;
  return done >= size ? formatBytes(size) : `${formatBytes(done)} of ${formatBytes(size)} on disk`;
}

function factsText({ architecture, parameters, quantization, kind }: ModelDetails): string {
  return [
    architecture,
    parameters === null ? null : `${formatParameterCount(parameters)} parameters`,
    quantization,
    kind,
  ]
    .filter((part) => part !== null)
    .join(", ");
}

function contextText({ context_length: tokens, max_context_length: max }: ModelDetails) {
  if (tokens === null) return undefined;
  return max === null || max === tokens ? `${tokens} tokens` : `${tokens} tokens of ${max}`;
}

function memoryTexts({ memory }: ModelDetails): string[] {
  const { loaded_bytes: loaded, wanted_bytes: wanted, least_bytes: least } = memory;
  const needs =
    wanted === null
      ? []
      : [
          `${formatBytes(wanted)} preferred${least === null ? "" : `, ${formatBytes(least)} at least`}`,
        ];
  return [...(loaded === null ? [] : [`${formatBytes(loaded)} in use`]), ...needs];
}

function filesText(files: readonly ModelFileView[]): string {
  if (files.length === 0) return "not known yet";
  return files
    .flatMap(({ name, size_bytes: size, sha256 }) => [
      size === null ? name : `${name}  ${formatBytes(size)}`,
      // The digest has its own line, because a truncated digest is useless.
      ...(sha256 === null ? [] : [`  sha256 ${sha256}`]),
    ])
    .join("\n");
}

/** Lists the owners of fields, each as `file:models.yaml source, quantization`. */
function ownersText({ owners }: ModelDetails): string {
  const byManager = new Map<string, string[]>();
  for (const [pointer, manager] of Object.entries(owners)) {
    const field = pointer.replace(/^\//, "").replaceAll("/", ".").replaceAll("~1", "/");
    byManager.set(manager, [...(byManager.get(manager) ?? []), field]);
  }
  if (byManager.size === 0) return "none";
  return formatFields(
    [...byManager].map(([manager, names]) => [manager, names.join(", ")] as const),
  );
}

/** Returns commands and client settings that use the model. */
export function createUsageLines(
  { name, kind }: Pick<ModelDetails, "name" | "kind">,
  url: string,
): string[] {
  const body =
    kind === "embedding"
      ? { path: "/v1/embeddings", json: { model: name, input: "Hello!" } }
      : {
          path: "/v1/chat/completions",
          json: { model: name, messages: [{ role: "user", content: "Hello!" }] },
        };
  return [
    ...(kind === "embedding" ? [] : [`  berth chat ${name}`]),
    `  curl ${url}${body.path} -H 'content-type: application/json' -d '${JSON.stringify(body.json)}'`,
    `  OpenAI clients: base URL ${url}/v1, model "${name}", any API key`,
  ];
}
