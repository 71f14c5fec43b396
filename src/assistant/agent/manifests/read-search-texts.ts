import { getOwn } from "../../../base/json.ts";
import type { JsonObject } from "../port.ts";
import { pointerBelow } from "./json-pointer.ts";
import { describeValue, type FaultCollector, quoteValue } from "./manifest-faults.ts";
import { searchTextLimits } from "./manifest-format.ts";
import { readDisplayText } from "./read-display-text.ts";

/**
 * Reads a list of texts by which discovery finds the tool, such as `keywords`. Returns an empty list if the field is
 * missing or invalid.
 */
export function readSearchTexts(
  tool: JsonObject,
  field: keyof typeof searchTextLimits,
  pointer: string,
  faults: FaultCollector,
): readonly string[] {
  const { itemsMax, charsMax } = searchTextLimits[field];
  const value = getOwn(tool, field);
  const at = pointerBelow(pointer, field);
  if (value === undefined) return [];
  if (!Array.isArray(value)) {
    faults.error(at, `must be a list of texts, not ${describeValue(value)}`);
    return [];
  }
  if (value.length > itemsMax) {
    faults.error(at, `has ${value.length} texts; at most ${itemsMax} are allowed`);
    return [];
  }
  const texts = new Set<string>();
  for (const [index, item] of value.entries()) {
    const rules = { charsMax, isMultiline: false };
    const text = readDisplayText(item, pointerBelow(at, index), rules, faults);
    if (text === undefined) continue;
    if (texts.has(text)) faults.warning(pointerBelow(at, index), `repeats ${quoteValue(text)}`);
    texts.add(text);
  }
  return [...texts];
}
