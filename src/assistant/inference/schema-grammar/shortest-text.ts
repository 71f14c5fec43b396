import { AssistantError } from "../../errors.ts";
import type { Expression } from "./expression.ts";
import { schemaLimits } from "./limits.ts";

/**
 * A shortest text of a grammar of which every rule comes to an end: what an engine that does not sample
 * answers. Of equally short options the first. Throws `unsupported_schema` where even that is too long.
 */
export function shortestText(rules: ReadonlyMap<string, Expression>, root: Expression): string {
  const lengths = new Map<string, number>();
  const lengthOf = (expression: Expression): number => {
    switch (expression.kind) {
      case "literal":
        return expression.text.length;
      case "class":
        return 1;
      case "rule":
        return lengths.get(expression.name) ?? Number.POSITIVE_INFINITY;
      case "repeat":
        return expression.min === 0 ? 0 : expression.min * lengthOf(expression.item);
      case "sequence":
        return expression.items.reduce((sum, item) => sum + lengthOf(item), 0);
      default:
        return Math.min(...expression.options.map(lengthOf));
    }
  };
  const fromTheEnd = [...rules].toReversed();
  for (let changed = true; changed; ) {
    changed = false;
    for (const [name, expression] of fromTheEnd) {
      const length = lengthOf(expression);
      if (length >= (lengths.get(name) ?? Number.POSITIVE_INFINITY)) continue;
      lengths.set(name, length);
      changed = true;
    }
  }
  if (lengthOf(root) > schemaLimits.shortestText) {
    throw new AssistantError(
      "unsupported_schema",
      `The schema asks for documents of more than ${schemaLimits.shortestText} characters; lower minItems or minLength`,
    );
  }
  const textOf = (expression: Expression): string => {
    switch (expression.kind) {
      case "literal":
        return expression.text;
      case "class":
        return characterOf(expression.ranges);
      case "rule": {
        const body = rules.get(expression.name);
        return body ? textOf(body) : "";
      }
      case "repeat":
        return textOf(expression.item).repeat(expression.min);
      case "sequence":
        return expression.items.map(textOf).join("");
      default: {
        const shortest = lengthOf(expression);
        const option = expression.options.find((entry) => lengthOf(entry) === shortest);
        return option ? textOf(option) : "";
      }
    }
  };
  return textOf(root);
}

/** A letter or a digit where the class has one. */
function characterOf(ranges: readonly (readonly [number, number])[]): string {
  for (const wanted of [0x61, 0x41, 0x30, 0x31]) {
    if (ranges.some(([from, to]) => from <= wanted && wanted <= to)) {
      return String.fromCodePoint(wanted);
    }
  }
  return String.fromCodePoint(ranges[0]?.[0] ?? 0x61);
}
