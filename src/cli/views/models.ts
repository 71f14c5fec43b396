import { formatBytes } from "../../base/units.ts";
import type { ModelView } from "../../resources/wire/models.ts";
import { type Colors, getStatusColour } from "../colours.ts";
import { createListing, type Listing } from "../output/print.ts";
import type { Column } from "../output/table.ts";

export function createModelListing(models: readonly ModelView[], colours: Colors): Listing {
  const hasErrors = models.some(({ error }) => error !== null);
  const error: Column<ModelView> = {
    header: "ERROR",
    value: (model) => model.error ?? "",
    canShrink: true,
  };
  const hasCatalogEntries = models.some(({ origin }) => origin === "catalog");
  const description: Column<ModelView> = {
    header: "DESCRIPTION",
    value: (model) => model.description ?? "",
    canShrink: true,
  };
  return createListing<ModelView>({
    rows: models,
    columns: [
      { header: "NAME", value: (model) => model.name },
      { header: "ID", value: formatModelId, canShrink: true, dropOrder: 4 },
      {
        header: "STATUS",
        value: formatModelStatus,
        comparedValue: (model) => model.status,
        colour: (text, model) => getStatusColour(colours, model.status)(text),
      },
      {
        header: "SIZE",
        value: (model) => (model.size_bytes === null ? "" : formatBytes(model.size_bytes)),
      },
      { header: "QUANT", value: (model) => model.quantization ?? "", dropOrder: 2 },
      { header: "CONTEXT", value: (model) => String(model.context_length ?? ""), dropOrder: 1 },
      {
        header: "MEMORY",
        value: (model) =>
          model.running && model.memory_bytes !== null ? formatBytes(model.memory_bytes) : "",
      },
      ...(hasErrors ? [error] : []),
      ...(hasCatalogEntries ? [description] : []),
    ],
    wideColumns: [
      { header: "KIND", value: (model) => model.kind ?? "" },
      { header: "ARCHITECTURE", value: (model) => model.architecture ?? "" },
      { header: "PARAMETERS", value: (model) => formatParameterCount(model.parameters) },
      {
        header: "NEEDS",
        value: (model) => (model.memory_bytes === null ? "" : formatBytes(model.memory_bytes)),
      },
      { header: "FILE", value: (model) => model.file ?? "", canShrink: true },
      { header: "SHA256", value: (model) => model.sha256?.slice(0, 12) ?? "" },
      { header: "COMMIT", value: (model) => model.commit?.slice(0, 12) ?? "" },
      { header: "MANAGED BY", value: (model) => model.managed_by, canShrink: true },
      { header: "MESSAGE", value: (model) => model.message, canShrink: true },
    ],
    name: (model) => `model/${model.name}`,
    document: { models, total: models.length },
    empty: "no models yet; download one with `berth models pull ORG/NAME`",
  });
}

/** Returns the repository of a model, or its source if it has no repository. */
function formatModelId({ id, name, source }: ModelView): string {
  return id === name ? (source ?? "") : id;
}

/** Formats the status, with the progress of a transfer: `downloading 34% 45.3 MiB/s`. */
export function formatModelStatus(model: ModelView): string {
  const { status, step, progress, bytes_per_second: speed } = model;
  if (step === "resolving") return `${status} (asking the source)`;
  if (step === "waiting") return `${status} (waiting)`;
  if (step === null) return status;
  const word = step === "verifying" ? "verifying" : status;
  const rate = speed === null || speed <= 0 ? "" : ` ${formatBytes(speed)}/s`;
  return `${word} ${Math.floor(progress * 100)}%${rate}`;
}

/** Formats a number of parameters: 494032768 is "494M". */
export function formatParameterCount(count: number | null): string {
  if (count === null) return "";
  const units = ["", "K", "M", "B", "T"];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, "")}${units[unit]}`;
}
