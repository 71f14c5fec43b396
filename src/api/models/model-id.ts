import { BerthError } from "../../base/errors.ts";
import { NAME_LENGTH_MAX } from "../../resources/field-schemas.ts";
import { parseModelSource } from "../../resources/model-source.ts";

/** A model id as a caller wrote it. */
export interface ModelId {
  /** The whole id, without a leading hub address such as `hf.co/`. */
  readonly text: string;
  /** The repository `org/name`; undefined if the id is the name of a Model or of a file. */
  readonly repository: string | undefined;
  /** The quantization, such as `Q4_K_M` in `org/name:Q4_K_M`; undefined if the id has none. */
  readonly quantization: string | undefined;
}

/** The maximum length of a model id. The id of every repository, including its quantization, is shorter. */
const LENGTH_MAX = 1024;
const TAG = /^([^:]+):([A-Za-z0-9][\w.-]{0,63})$/;
/** Matches names of Models, and of files in the assistant's folder. */
const NAME = /^[A-Za-z0-9][\w.+-]*$/;
/** Matches the address of a hub, which Ollama puts before a repository. */
const HUB_ADDRESS = /^(?:https:\/\/)?(?:hf\.co|huggingface\.co)\/(?=[^/]+\/[^/]+$)/;

/** Parses the id of a model. Throws BerthError `invalid_request`. */
export function parseModelId(written: string): ModelId {
  const text = written.replace(HUB_ADDRESS, "");
  const [, base = text, quantization] = TAG.exec(text) ?? [];
  const id = (repository: string | undefined) => ({ text, repository, quantization });
  if (text.length > LENGTH_MAX) throw malformedIdError(written);
  if (NAME.test(base) && !base.includes("..")) return id(undefined);
  const parsed = parseModelSource(base);
  if ("source" in parsed && parsed.source.type === "repository") return id(parsed.source.id);
  throw malformedIdError(written);
}

function malformedIdError(written: string): BerthError {
  const shown = JSON.stringify(written.slice(0, 80));
  return new BerthError("invalid_request", `${shown} is not the id of a model`, {
    hint: "write a name, or a repository as org/name or org/name:QUANTIZATION (org%2Fname in a path); for a URL or a file, create a Model that has it as its source",
  });
}

/**
 * Chooses a name for a new Model: the name of its repository or file in lower case without common suffixes. If that
 * name is taken, the quantization, the organisation or a number is appended.
 */
export function chooseModelName(
  from: { readonly id: string; readonly quantization?: string | undefined },
  isTaken: (name: string) => boolean,
): string {
  const parts = from.id.split("/");
  const plain = toDnsLabel((parts.at(-1) ?? "").replace(/[-_.]gguf$/i, ""));
  const quantization = toDnsLabel(from.quantization ?? "");
  const tail = quantization === "" ? [] : [appendWithinLimit(plain, `-${quantization}`)];
  const whole = parts.length === 1 ? [] : [toDnsLabel(`${parts[0]}-${plain}`)];
  const candidates = [plain, ...tail, ...whole].filter((text) => text !== "");
  const free = candidates.find((candidate) => !isTaken(candidate));
  if (free !== undefined) return free;
  const stem = candidates[0] ?? "model";
  for (let number = 2; ; number += 1) {
    const numbered = appendWithinLimit(stem, `-${number}`);
    if (!isTaken(numbered)) return numbered;
  }
}

/** Returns the text as a DNS-1123 label; empty if it contains no valid character. */
function toDnsLabel(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, NAME_LENGTH_MAX)
    .replace(/-$/, "");
}

/**
 * Returns `stem` plus `ending` as a DNS label. If both together are longer than NAME_LENGTH_MAX, `stem` is shortened
 * and `ending` is kept.
 */
function appendWithinLimit(stem: string, ending: string): string {
  return toDnsLabel(`${stem.slice(0, Math.max(1, NAME_LENGTH_MAX - ending.length))}${ending}`);
}
