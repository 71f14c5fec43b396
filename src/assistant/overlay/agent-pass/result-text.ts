import type { CallDetail } from "../../agent/port.ts";
import { escapeText, truncateBytes } from "./escape-text.ts";

/** Formats a call's result or failure as a text of at most `bytesMax` bytes. */
export function formatResult(detail: CallDetail, bytesMax: number): string {
  // The result may be megabytes long, so it is cut before it is escaped. `bytesMax` + 1 characters suffice, because
  // each character has at least one byte.
  const text = formatRawResult(detail).slice(0, bytesMax + 1);
  return truncateBytes(escapeText(text), bytesMax);
}

function formatRawResult(detail: CallDetail): string {
  if (detail.code !== "ok") return formatFailure(detail);
  if (detail.result !== undefined) return JSON.stringify(detail.result);
  const texts = (detail.content ?? []).map((block) => formatBlock(block));
  return texts.length > 0 ? texts.join("\n") : "done; it gave no result";
}

function formatFailure({ code, message, errors, outcome }: CallDetail): string {
  if (code === "declined") return "not done: declined by the user";
  const faults = (errors ?? []).map(({ path, message: fault }) => `${path || "/"}: ${fault}`);
  const reason = faults.length > 1 ? faults.join("; ") : message;
  // If the call may have had an effect, the text must not say that it was not done, because the model would repeat the
  // call.
  return `${outcome === "unknown" ? "outcome unknown" : "not done"} (${code}): ${reason}`;
}

/** Formats one content block; a block that is not text is replaced by the name of its type. */
function formatBlock(block: unknown): string {
  if (typeof block !== "object" || block === null) return "[content of no kind]";
  const type: unknown = Reflect.get(block, "type");
  const text: unknown = Reflect.get(block, "text");
  if (type === "text" && typeof text === "string") return text;
  return typeof type === "string" ? `[${type.slice(0, 40)}]` : "[content of no kind]";
}
