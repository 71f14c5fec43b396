import { BerthError } from "../../../base/errors.ts";
import { parseGgufName } from "./gguf-name.ts";

/**
 * The maximum number of parts. No publisher splits a model into more parts, and each part costs a request or a file.
 */
const PARTS_MAX = 1000;

/**
 * Returns the names of all parts of the split model in order. If the name is not that of a part, returns only this
 * name. Throws `hub_not_found` for an unreasonable number of parts.
 */
export function listPartNames(name: string): readonly string[] {
  const part = parseGgufName(name)?.part;
  if (!part) return [name];
  assertPartCount(name, part.count);
  return Array.from({ length: part.count }, (_, index) =>
    name.replace(/-\d{5}(-of-\d{5}\.gguf)$/i, `-${String(index + 1).padStart(5, "0")}$1`),
  );
}

/** Throws `hub_not_found` for an unreasonable number of parts. */
export function assertPartCount(name: string, count: number): void {
  if (count <= PARTS_MAX) return;
  throw new BerthError("hub_not_found", `${name} claims to be one of ${count} parts`, {
    hint: `models of up to ${PARTS_MAX} parts are supported`,
  });
}
