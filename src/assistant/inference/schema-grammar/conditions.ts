import { isObject, isStrings, own } from "./json.ts";
import { mapAt } from "./own-keywords.ts";
import type { Part } from "./part.ts";
import { anyObject, lacking } from "./part.ts";
import { pointerTo, refuse } from "./refusal.ts";
import type { SchemaNode } from "./schema-document.ts";
import type { ShapeContext } from "./shape-context.ts";

/** What one keyword leaves, with its name. */
interface Narrowing {
  readonly keyword: string;
  readonly parts: readonly Part[];
}

/** if/then/else and the dependencies, as «either the condition fails, or what follows from it holds». */
export function* conditionsOf(
  shapes: ShapeContext,
  node: SchemaNode,
  raw: Readonly<Record<string, unknown>>,
): Generator<Narrowing> {
  if (own(raw, "if") !== undefined) {
    const ends = ["then", "else"].filter((keyword) => own(raw, keyword) !== undefined);
    if (ends.length > 0) {
      const condition = shapes.child(node, "if");
      const branch = (keyword: "then" | "else", given: readonly Part[]) =>
        ends.includes(keyword) ? shapes.meet(given, shapes.of(shapes.child(node, keyword))) : given;
      yield {
        keyword: "if",
        parts: shapes.unique([
          ...branch("then", shapes.of(condition)),
          ...branch("else", shapes.of(shapes.negated(condition))),
        ]),
      };
    }
  }
  for (const keyword of ["dependentRequired", "dependentSchemas", "dependencies"] as const) {
    const map = mapAt(node, raw, keyword);
    for (const [name, effect] of Object.entries(map ?? {})) {
      const at = pointerTo(node.pointer, keyword, name);
      yield {
        keyword,
        parts: shapes.unique([
          ...lacking(name, at),
          ...follows(shapes, node, keyword, name, effect),
        ]),
      };
    }
  }
}

/** The objects that have `name`, and therefore what depends on it. */
function follows(
  shapes: ShapeContext,
  node: SchemaNode,
  keyword: "dependentRequired" | "dependentSchemas" | "dependencies",
  name: string,
  effect: unknown,
): readonly Part[] {
  const at = pointerTo(node.pointer, keyword, name);
  const having = { ...anyObject(at), required: [name] };
  if (keyword !== "dependentSchemas" && isStrings(effect)) {
    return shapes.meet([having], [{ ...anyObject(at), required: effect }]);
  }
  if (keyword === "dependentRequired" || !(typeof effect === "boolean" || isObject(effect))) {
    return refuse(keyword, at, "has to be a list of names or, in dependentSchemas, a schema");
  }
  return shapes.meet([having], shapes.of(shapes.child(node, keyword, name)));
}
