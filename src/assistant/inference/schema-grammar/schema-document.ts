import { getOwn, isObject } from "../../../base/json.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type SubschemaKind, subschemaKeywords } from "./keyword-tables.ts";
import { schemaLimits } from "./schema-limits.ts";
import { extendPointer, refuseKeyword } from "./schema-refusal.ts";

/** One schema of a document. The same location always gives the same object and id. */
export interface SchemaNode {
  readonly id: number;
  readonly raw: boolean | Readonly<Record<string, unknown>>;
  readonly pointer: string;
  /** The nearest enclosing schema with an `$id`, or the root. The references of this schema are resolved against it. */
  readonly resource: Resource;
}

interface Resource {
  readonly uri: string;
  readonly raw: unknown;
  readonly pointer: string;
}

/** The base of relative references. No document is ever fetched. */
const BASE_URI = "https://schema.invalid/";

/** A client's schema with its identifiers, anchors and references. */
export class SchemaDocument {
  readonly root: SchemaNode;
  readonly #nodes = new Map<string, SchemaNode>();
  readonly #resources = new Map<string, Resource>();
  readonly #anchors = new Map<string, { raw: unknown; pointer: string; resource: Resource }>();
  readonly #isDraft4: boolean;
  readonly #isBeforeDraft2019: boolean;

  constructor(schema: unknown) {
    assertSchemaSize(schema);
    const written = isObject(schema) ? JSON.stringify(getOwn(schema, "$schema") ?? "") : "";
    this.#isDraft4 = /draft-0?4/.test(written);
    this.#isBeforeDraft2019 = /draft-0?[4-7]/.test(written);
    const resource = this.#findResource(schema, "#", { uri: BASE_URI, raw: schema, pointer: "#" });
    this.#resources.set(BASE_URI, resource);
    this.#index(schema, "#", resource);
    this.root = this.#node(schema, "#", resource);
  }

  /** Creates a node for a schema that is not in the client's document, such as `false`. */
  createSynthetic(raw: boolean | Readonly<Record<string, unknown>>, pointer: string): SchemaNode {
    const node = { id: this.#nodes.size, raw, pointer, resource: this.root.resource };
    this.#nodes.set(`invented ${this.#nodes.size}`, node);
    return node;
  }

  /** Returns the schema at the path `steps` below `node`; refuses a value that is neither an object nor a boolean. */
  child(node: SchemaNode, ...steps: readonly (string | number)[]): SchemaNode {
    let raw: unknown = node.raw;
    for (const step of steps) raw = getChild(raw, String(step));
    const pointer = extendPointer(node.pointer, ...steps);
    return this.#node(raw, pointer, this.#findResource(raw, pointer, node.resource));
  }

  /** Resolves a `$ref` of `node`. */
  resolve(node: SchemaNode, reference: string): SchemaNode {
    const at = extendPointer(node.pointer, "$ref");
    let target: URL;
    try {
      target = new URL(reference, node.resource.uri);
    } catch {
      return refuseKeyword("$ref", at, "is not a URI reference");
    }
    const fragment = decodeFragment(target.hash, at);
    target.hash = "";
    const resource = this.#resources.get(target.href);
    if (!resource)
      return refuseKeyword("$ref", at, "refers to another document, and Berth fetches none");
    if (fragment === "" || fragment.startsWith("/")) return this.#walk(resource, fragment, at);
    const anchor = this.#anchors.get(`${resource.uri}#${fragment}`);
    if (!anchor) return refuseKeyword("$ref", at, "names an anchor that is not in the schema");
    return this.#node(anchor.raw, anchor.pointer, anchor.resource);
  }

  #walk(start: Resource, fragment: string, at: string): SchemaNode {
    let raw = start.raw;
    let resource = start;
    let pointer = start.pointer;
    for (const step of fragment.split("/").slice(1)) {
      const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
      raw = getChild(raw, key);
      pointer = extendPointer(pointer, key);
      if (raw === undefined)
        return refuseKeyword("$ref", at, "refers to a location that does not exist in the schema");
      resource = this.#findResource(raw, pointer, resource);
    }
    return this.#node(raw, pointer, resource);
  }

  #node(raw: unknown, pointer: string, resource: Resource): SchemaNode {
    const known = this.#nodes.get(pointer);
    if (known) return known;
    if (typeof raw !== "boolean" && !isObject(raw)) {
      const keyword = pointer.slice(pointer.lastIndexOf("/") + 1);
      return refuseKeyword(keyword, pointer, "must be a schema: an object, true or false");
    }
    const node = { id: this.#nodes.size, raw, pointer, resource };
    this.#nodes.set(pointer, node);
    return node;
  }

  #readId(raw: unknown): string | undefined {
    if (!isObject(raw)) return undefined;
    // Up to draft 7, the other keywords in the object of a `$ref` are ignored.
    if (this.#isBeforeDraft2019 && getOwn(raw, "$ref") !== undefined) return undefined;
    const id = getOwn(raw, this.#isDraft4 ? "id" : "$id");
    return typeof id === "string" ? id : undefined;
  }

  #findResource(raw: unknown, pointer: string, around: Resource): Resource {
    const id = this.#readId(raw);
    // Up to draft 7, an `$id` with only a fragment is an anchor, which does not change the base URI.
    if (id === undefined || id.startsWith("#")) return around;
    let uri: URL;
    try {
      uri = new URL(id, around.uri);
    } catch {
      return refuseKeyword(this.#isDraft4 ? "id" : "$id", pointer, "is not a URI reference");
    }
    uri.hash = "";
    return this.#resources.get(uri.href) ?? { uri: uri.href, raw, pointer };
  }

  /** Indexes every `$id` and anchor in locations that contain schemas. */
  #index(raw: unknown, pointer: string, resource: Resource): void {
    if (!isObject(raw)) return;
    if (!this.#resources.has(resource.uri)) this.#resources.set(resource.uri, resource);
    const id = this.#readId(raw);
    const anchors = [getOwn(raw, "$anchor"), getOwn(raw, "$dynamicAnchor")];
    if (id?.startsWith("#")) anchors.push(id.slice(1));
    for (const anchor of anchors) {
      if (typeof anchor !== "string") continue;
      this.#anchors.set(`${resource.uri}#${anchor}`, { raw, pointer, resource });
    }
    for (const [keyword, value] of Object.entries(raw)) {
      const place = subschemaKeywords.get(keyword);
      if (place === undefined) continue;
      for (const [steps, schema] of listSubschemas(keyword, place, value)) {
        const at = extendPointer(pointer, ...steps);
        this.#index(schema, at, this.#findResource(schema, at, resource));
      }
    }
  }
}

function listSubschemas(
  keyword: string,
  place: SubschemaKind,
  value: unknown,
): readonly (readonly [steps: readonly string[], schema: unknown])[] {
  if (place === "one" || (place === "one-or-list" && !Array.isArray(value))) {
    return [[[keyword], value]];
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).map(([name, schema]) => [[keyword, name], schema] as const);
}

function getChild(raw: unknown, key: string): unknown {
  if (Array.isArray(raw)) return /^(0|[1-9]\d*)$/.test(key) ? raw[Number(key)] : undefined;
  return isObject(raw) ? getOwn(raw, key) : undefined;
}

function decodeFragment(hash: string, at: string): string {
  try {
    return decodeURIComponent(hash.replace(/^#/, ""));
  } catch {
    return refuseKeyword("$ref", at, "has a fragment with invalid percent-encoding");
  }
}

/** Refuses a schema that is too deep or too large; iterative, so that depth cannot overflow the stack. */
export function assertSchemaSize(schema: unknown): void {
  let nodes = 0;
  const todo: { value: unknown; depth: number }[] = [{ value: schema, depth: 1 }];
  for (let next = todo.pop(); next; next = todo.pop()) {
    nodes += 1;
    if (nodes > schemaLimits.nodes) {
      throw tooLarge(`more than ${schemaLimits.nodes} objects, arrays and values`);
    }
    const { value, depth } = next;
    if (typeof value !== "object" || value === null) continue;
    if (depth > schemaLimits.depth) throw tooLarge(`more than ${schemaLimits.depth} levels`);
    for (const entry of Object.values(value)) todo.push({ value: entry, depth: depth + 1 });
  }
}

function tooLarge(what: string): AssistantError {
  return new AssistantError(
    "unsupported_schema",
    `The schema is too large: it has ${what}; make it smaller or split the request`,
  );
}
