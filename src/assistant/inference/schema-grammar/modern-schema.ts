import { isObject, own } from "./json.ts";
import { SchemaDocument, type SchemaNode } from "./schema-document.ts";
import { schemaPlaces } from "./schema-keywords.ts";

/**
 * The same schema in the words of 2020-12, with every reference into `$defs`: Ajv finds no `$id` below
 * `prefixItems`, does not know draft 4, and takes `$schema` and `id` for mistakes. Throws as
 * `SchemaDocument` does.
 */
export function modernSchema(schema: unknown): object | boolean {
  const document = new SchemaDocument(schema);
  const modern = new Modern(document);
  const root = modern.rewritten(document.root);
  if (typeof root === "boolean") return root;
  return { ...root, $defs: modern.referred() };
}

/** Dropped: `$defs` is made anew, references and drafts are resolved, and `id` is none of Ajv's words. */
const dropped = new Set(["$schema", "$id", "id", "$anchor", "$defs", "definitions"]);

class Modern {
  readonly #document: SchemaDocument;
  /** What has been referred to, and has still to be written. */
  readonly #targets = new Map<number, SchemaNode>();

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** Every schema that a reference leads to, by the name that the reference has been given. */
  referred(): object {
    const written: [string, object | boolean][] = [];
    // The map grows while it is walked.
    for (const [id, node] of this.#targets) written.push([`ref-${id}`, this.rewritten(node)]);
    return Object.fromEntries(written);
  }

  rewritten(node: SchemaNode): object | boolean {
    const { raw } = node;
    if (typeof raw === "boolean") return raw;
    const entries: [string, unknown][] = [];
    for (const [keyword, value] of Object.entries(raw)) {
      entries.push(...this.#keyword(node, raw, keyword, value));
    }
    return Object.fromEntries(entries);
  }

  #keyword(
    node: SchemaNode,
    raw: Readonly<Record<string, unknown>>,
    keyword: string,
    value: unknown,
  ): readonly [string, unknown][] {
    if (dropped.has(keyword)) return [];
    if (keyword === "$ref" && typeof value === "string") {
      const target = this.#document.resolve(node, value);
      this.#targets.set(target.id, target);
      return [["$ref", `#/$defs/ref-${target.id}`]];
    }
    if (keyword === "additionalItems") {
      return Array.isArray(own(raw, "items")) ? [["items", this.#below(node, keyword)]] : [];
    }
    if (keyword === "items" && Array.isArray(value)) {
      return [["prefixItems", value.map((_, index) => this.#below(node, keyword, index))]];
    }
    // Ajv takes the word of OpenAPI beside a type only.
    if (keyword === "nullable") return own(raw, "type") === undefined ? [] : [[keyword, value]];
    // Draft 4 says with a boolean that the bound beside it is excluded.
    if (typeof value === "boolean" && /^exclusiveM(in|ax)imum$/.test(keyword)) return [];
    if (keyword === "minimum" && own(raw, "exclusiveMinimum") === true) {
      return [["exclusiveMinimum", value]];
    }
    if (keyword === "maximum" && own(raw, "exclusiveMaximum") === true) {
      return [["exclusiveMaximum", value]];
    }
    return [[keyword, this.#value(node, keyword, value)]];
  }

  /** A keyword's value, with the schemas in it rewritten. */
  #value(node: SchemaNode, keyword: string, value: unknown): unknown {
    const place = schemaPlaces.get(keyword);
    if (place === undefined) return value;
    if (Array.isArray(value)) return value.map((_, index) => this.#below(node, keyword, index));
    if (place !== "map") return this.#below(node, keyword);
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, entry]) => [
        name,
        // `dependencies` has lists of names among its schemas.
        Array.isArray(entry) ? entry : this.#below(node, keyword, name),
      ]),
    );
  }

  #below(node: SchemaNode, ...steps: readonly (string | number)[]): object | boolean {
    return this.rewritten(this.#document.child(node, ...steps));
  }
}
