import { BerthError } from "../../../base/errors.ts";
import { parseGgufName } from "./gguf-name.ts";

/** No publisher splits into more; each part costs a question, or a file to look after. */
const PARTS_MAX = 1000;

/**
 * The names of all parts of the model that a file name is one of, in their order; the name itself where it
 * is whole. Throws `hub_not_found` for a count that no model has.
 */
export function listPartNames(name: string): readonly string[] {
  const part = parseGgufName(name)?.part;
  if (!part) return [name];
  assertPartCount(name, part.count);
  return Array.from({ length: part.count }, (_, index) =>
    name.replace(/-\d{5}(-of-\d{5}\.gguf)$/i, `-${String(index + 1).padStart(5, "0")}$1`),
  );
}

/** Throws `hub_not_found` for a count that no model has. */
export function assertPartCount(name: string, count: number): void {
  if (count <= PARTS_MAX) return;
  throw new BerthError("hub_not_found", `${name} says that it is one of ${count} parts`, {
    hint: `models of up to ${PARTS_MAX} parts can be fetched`,
  });
}
