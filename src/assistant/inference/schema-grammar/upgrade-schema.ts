import { getOwn, isObject } from "./json-values.ts";
import { subschemaKeywords } from "./keyword-tables.ts";
import { SchemaDocument, type SchemaNode } from "./schema-document.ts";

/**
 * The same schema in the words of 2020-12, with every reference into `$defs`: Ajv finds no `$id` below
 * `prefixItems`, does not know draft 4, and takes `$schema` and `id` for mistakes. Throws as
 * `SchemaDocument` does.
 */
export function upgradeSchema(schema: unknown): object | boolean {
  const document = new SchemaDocument(schema);
  const upgrader = new SchemaUpgrader(document);
  const root = upgrader.rewrite(document.root);
  if (typeof root === "boolean") return root;
  return { ...root, $defs: upgrader.definitions() };
}

/** Dropped: `$defs` is made anew, references and drafts are resolved, and `id` is none of Ajv's words. */
const droppedKeywords = new Set(["$schema", "$id", "id", "$anchor", "$defs", "definitions"]);

class SchemaUpgrader {
  readonly #document: SchemaDocument;
  /** What has been referred to, and has still to be written. */
  readonly #referenced = new Map<number, SchemaNode>();

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** Every schema that a reference leads to, by the name that the reference has been given. */
  definitions(): object {
    const written: [string, object | boolean][] = [];
    // The map grows while it is walked.
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
    // Ajv takes the word of OpenAPI beside a type only.
    if (keyword === "nullable") return getOwn(raw, "type") === undefined ? [] : [[keyword, value]];
    // Draft 4 says with a boolean that the bound beside it is excluded.
    if (typeof value === "boolean" && /^exclusiveM(in|ax)imum$/.test(keyword)) return [];
    if (keyword === "minimum" && getOwn(raw, "exclusiveMinimum") === true) {
      return [["exclusiveMinimum", value]];
    }
    if (keyword === "maximum" && getOwn(raw, "exclusiveMaximum") === true) {
      return [["exclusiveMaximum", value]];
    }
    return [[keyword, this.#rewriteValue(node, keyword, value)]];
  }

  /** A keyword's value, with the schemas in it rewritten. */
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
        // `dependencies` has lists of names among its schemas.
        Array.isArray(entry) ? entry : this.#rewriteChild(node, keyword, name),
      ]),
    );
  }

  #rewriteChild(node: SchemaNode, ...steps: readonly (string | number)[]): object | boolean {
    return this.rewrite(this.#document.child(node, ...steps));
  }
}
