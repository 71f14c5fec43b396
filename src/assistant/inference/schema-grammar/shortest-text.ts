import { AssistantError } from "../../assistant-error.ts";
import type { Expression } from "./expression.ts";
import { schemaLimits } from "./schema-limits.ts";

/**
 * Finds the shortest text of a grammar whose rules all have a finite text. The stub engine, which does not sample,
 * answers with this text. Prefers the first of equally short options. Throws `unsupported_schema` if that text is too
 * long.
 */
export function findShortestText(rules: ReadonlyMap<string, Expression>, root: Expression): string {
  const lengths = new Map<string, number>();
  const measure = (expression: Expression): number => {
    switch (expression.kind) {
      case "literal":
        return expression.text.length;
      case "class":
        return 1;
      case "rule":
        return lengths.get(expression.name) ?? Number.POSITIVE_INFINITY;
      case "repeat":
        return expression.min === 0 ? 0 : expression.min * measure(expression.item);
      case "sequence":
        return expression.items.reduce((sum, item) => sum + measure(item), 0);
      default:
        return Math.min(...expression.options.map(measure));
    }
  };
  const fromTheEnd = [...rules].toReversed();
  for (let changed = true; changed; ) {
    changed = false;
    for (const [name, expression] of fromTheEnd) {
      const length = measure(expression);
      if (length >= (lengths.get(name) ?? Number.POSITIVE_INFINITY)) continue;
      lengths.set(name, length);
      changed = true;
    }
  }
  if (measure(root) > schemaLimits.shortestText) {
    throw new AssistantError(
      "unsupported_schema",
      `The schema requires documents of more than ${schemaLimits.shortestText} characters; lower minItems or minLength`,
    );
  }
  const buildText = (expression: Expression): string => {
    switch (expression.kind) {
      case "literal":
        return expression.text;
      case "class":
        return pickCharacter(expression.ranges);
      case "rule": {
        const body = rules.get(expression.name);
        return body ? buildText(body) : "";
      }
      case "repeat":
        return buildText(expression.item).repeat(expression.min);
      case "sequence":
        return expression.items.map(buildText).join("");
      default: {
        const shortest = measure(expression);
        const option = expression.options.find((entry) => measure(entry) === shortest);
        return option ? buildText(option) : "";
      }
    }
  };
  return buildText(root);
}

/** Returns a character of the class: a letter or a digit if the class has one. */
function pickCharacter(ranges: readonly (readonly [number, number])[]): string {
  for (const wanted of [0x61, 0x41, 0x30, 0x31]) {
    if (ranges.some(([from, to]) => from <= wanted && wanted <= to)) {
      return String.fromCodePoint(wanted);
    }
  }
  return String.fromCodePoint(ranges[0]?.[0] ?? 0x61);
}
