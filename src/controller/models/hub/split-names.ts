import { BerthError } from "../../../base/errors.ts";
import { readGgufName } from "./gguf-name.ts";

/** No publisher splits into more; each part of a URL costs a question. */
const PARTS_MAX = 1000;

/**
 * The names of all parts of the model that a file name is one of, in their order; the name itself where it
 * is whole. Throws `hub_not_found` for a count that no model has.
 */
export function partNames(name: string): readonly string[] {
  const part = readGgufName(name)?.part;
  if (!part) return [name];
  if (part.count > PARTS_MAX)
    throw new BerthError("hub_not_found", `${name} says that it is one of ${part.count} parts`, {
      hint: `models of up to ${PARTS_MAX} parts can be fetched`,
    });
  return Array.from({ length: part.count }, (_, index) =>
    name.replace(/-\d{5}(-of-\d{5}\.gguf)$/i, `-${String(index + 1).padStart(5, "0")}$1`),
  );
}
