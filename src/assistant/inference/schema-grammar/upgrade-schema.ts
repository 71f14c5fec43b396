import { getOwn, isObject } from "../../../base/json.ts";
import { subschemaKeywords } from "./keyword-tables.ts";
import { SchemaDocument, type SchemaNode } from "./schema-document.ts";

/**
 * Rewrites a schema to draft 2020-12 with all referenced schemas in `$defs`, because Ajv finds no `$id` below
 * `prefixItems`, does not support draft 4, and reports `$schema` and `id` as errors. Throws `unsupported_schema` if the
 * schema is too large or contains an invalid reference.
 */
export function upgradeSchema(schema: unknown): object | boolean {
  const document = new SchemaDocument(schema);
  const upgrader = new SchemaUpgrader(document);
  const root = upgrader.rewrite(document.root);
  if (typeof root === "boolean") return root;
  return { ...root, $defs: upgrader.definitions() };
}

/**
 * Keywords that are not copied. The rewritten schema gets its own `$defs`, refers only to these, and always uses draft
 * 2020-12.
 */
const droppedKeywords = new Set(["$schema", "$id", "id", "$anchor", "$defs", "definitions"]);

class SchemaUpgrader {
  readonly #document: SchemaDocument;
  /** The schemas that rewritten references point to. The method `definitions` returns their rewritten forms. */
  readonly #referenced = new Map<number, SchemaNode>();

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** Returns the rewritten forms of all referenced schemas as the value of `$defs`. */
  definitions(): object {
    const written: [string, object | boolean][] = [];
    // Rewriting a schema may add other schemas to the map, which this loop then visits too.
    for (const [id, node] of this.#referenced) written.push([`ref-${id}`, this.rewrite(node)]);
    return Object.fromEntries(written);
  }

  rewrite(node: SchemaNode): object | boolean {
    const { raw } = node;
    if (typeof raw === "boolean") return raw;
    const entries: [string, unknown][] = [];
    for (const [keyword, value] of Object.entries(raw)) {
      entries.push(...this.#rewriteKeyword(node, raw, keyword, value));
    }
    return Object.fromEntries(entries);
  }

  #rewriteKeyword(
    node: SchemaNode,
    raw: Readonly<Record<string, unknown>>,
    keyword: string,
    value: unknown,
  ): readonly [string, unknown][] {
    if (droppedKeywords.has(keyword)) return [];
    if (keyword === "$ref" && typeof value === "string") {
      const target = this.#document.resolve(node, value);
      this.#referenced.set(target.id, target);
      return [["$ref", `#/$defs/ref-${target.id}`]];
    }
    if (keyword === "additionalItems") {
      return Array.isArray(getOwn(raw, "items"))
        ? [["items", this.#rewriteChild(node, keyword)]]
        : [];
    }
    if (keyword === "items" && Array.isArray(value)) {
      return [["prefixItems", value.map((_, index) => this.#rewriteChild(node, keyword, index))]];
    }
    // The keyword is dropped if there is no `type`, because Ajv accepts OpenAPI's `nullable` only together with `type`.
    if (keyword === "nullable") return getOwn(raw, "type") === undefined ? [] : [[keyword, value]];
    // In draft 4, exclusiveMinimum and exclusiveMaximum are booleans. They are dropped, and a minimum or maximum that
    // such a boolean makes exclusive is renamed.
    if (typeof value === "boolean" && /^exclusiveM(in|ax)imum$/.test(keyword)) return [];
    if (keyword === "minimum" && getOwn(raw, "exclusiveMinimum") === true) {
      return [["exclusiveMinimum", value]];
    }
    if (keyword === "maximum" && getOwn(raw, "exclusiveMaximum") === true) {
      return [["exclusiveMaximum", value]];
    }
    return [[keyword, this.#rewriteValue(node, keyword, value)]];
  }

  /** Returns a keyword's value with its schemas rewritten. */
  #rewriteValue(node: SchemaNode, keyword: string, value: unknown): unknown {
    const place = subschemaKeywords.get(keyword);
    if (place === undefined) return value;
    if (Array.isArray(value))
      return value.map((_, index) => this.#rewriteChild(node, keyword, index));
    if (place !== "map") return this.#rewriteChild(node, keyword);
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, entry]) => [
        name,
        // `dependencies` contains both schemas and lists of names. Only the schemas are rewritten.
        Array.isArray(entry) ? entry : this.#rewriteChild(node, keyword, name),
      ]),
    );
  }

  #rewriteChild(node: SchemaNode, ...steps: readonly (string | number)[]): object | boolean {
    return this.rewrite(this.#document.child(node, ...steps));
  }
}
