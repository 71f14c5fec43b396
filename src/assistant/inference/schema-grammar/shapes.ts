import { complementOf } from "./complement.ts";
import { conditionsOf } from "./conditions.ts";
import { intersect } from "./intersect.ts";
import { own } from "./json.ts";
import { schemaLimits } from "./limits.ts";
import { exactlyOne } from "./one-of.ts";
import { listAt, ownParts } from "./own-keywords.ts";
import type { Part, Schemas } from "./part.ts";
import { anyValue, keyOf } from "./part.ts";
import { pointerTo, refuse } from "./refusal.ts";
import type { ScalarGrammar } from "./scalars.ts";
import type { SchemaDocument, SchemaNode } from "./schema-document.ts";
import { keywordsByType, refusedKeywords } from "./schema-keywords.ts";
import type { ShapeContext } from "./shape-context.ts";
import { restrictUnevaluated } from "./unevaluated.ts";
import { valueMeets } from "./value-meets.ts";

type Raw = Readonly<Record<string, unknown>>;

/** Works out the parts of schemas, each once. One instance serves one compilation. */
export class Shapes implements ShapeContext {
  readonly document: SchemaDocument;
  readonly scalars: ScalarGrammar;
  /** Why something came out empty, first first: the reason given when nothing at all is left. */
  readonly contradictions: string[] = [];
  readonly #nodes: SchemaNode[] = [];
  readonly #known = new Map<number, readonly Part[]>();
  readonly #combined = new Map<string, readonly Part[]>();
  readonly #under = new Set<number>();
  readonly #nothing: Schemas;
  #facets = 0;
  #parts = 0;

  constructor(document: SchemaDocument, scalars: ScalarGrammar) {
    this.document = document;
    this.scalars = scalars;
    this.#nothing = this.literal(document.invent(false, "#"));
  }

  get nothing(): Schemas {
    return this.#nothing;
  }

  nextFacet(): number {
    this.#facets += 1;
    return this.#facets;
  }

  literal(node: SchemaNode, negated = false): Schemas {
    this.#nodes[node.id] = node;
    return [node.id * 2 + (negated ? 1 : 0)];
  }

  child(node: SchemaNode, ...steps: readonly (string | number)[]): Schemas {
    return this.literal(this.document.child(node, ...steps));
  }

  /** The opposite: holds where at least one of `schemas` does not. Only of a single one. */
  negated(schemas: Schemas): Schemas {
    return schemas.map((literal) => literal ^ 1);
  }

  /** What values may be that meet every one of `schemas`. */
  of(schemas: Schemas): readonly Part[] {
    const [first, ...others] = schemas;
    if (first === undefined) return anyValue(this.document.root.pointer);
    if (others.length === 0) return this.#ofLiteral(first);
    const key = schemas.join();
    let parts = this.#combined.get(key);
    if (!parts) {
      parts = this.#ofLiteral(first);
      for (const literal of others) parts = this.meet(parts, this.#ofLiteral(literal));
      this.#combined.set(key, parts);
    }
    return parts;
  }

  /** What both lists allow. */
  meet(left: readonly Part[], right: readonly Part[]): readonly Part[] {
    const found: Part[] = [];
    for (const one of left) {
      for (const other of right) {
        const both = this.meetParts(one, other);
        if (both) found.push(both);
      }
    }
    return this.unique(found);
  }

  meetParts(one: Part, other: Part): Part | undefined {
    this.#spend();
    if (one.kind === "values" || other.kind === "values") {
      const [named, filter] = one.kind === "values" ? [one, other] : [other, one];
      if (named.kind !== "values") return undefined;
      const values = named.values.filter((value) => valueMeets(this, filter, value));
      return values.length === 0 ? undefined : { kind: "values", values };
    }
    return intersect(one, other);
  }

  /** Each part once. */
  unique(parts: readonly Part[]): readonly Part[] {
    if (parts.length < 2) return parts;
    return [...new Map(parts.map((part) => [keyOf(part), part])).values()];
  }

  note(reason: string): void {
    if (this.contradictions.length < 3) this.contradictions.push(reason);
  }

  /** Notes why nothing is left where `parts` is empty, and hands it on. */
  noted(parts: readonly Part[], keyword: string, pointer: string): readonly Part[] {
    if (parts.length === 0) this.note(`"${keyword}" at ${pointer} leaves nothing`);
    return parts;
  }

  #spend(): void {
    this.#parts += 1;
    if (this.#parts > schemaLimits.parts) {
      refuse(
        "allOf, anyOf, oneOf, if or not",
        this.document.root.pointer,
        "multiply out to too many alternatives",
      );
    }
  }

  #ofLiteral(literal: number): readonly Part[] {
    const known = this.#known.get(literal);
    if (known) return known;
    const node = this.#nodes[literal >> 1];
    if (!node) throw new Error("a schema that was never met");
    if (this.#under.has(literal)) {
      refuse("$ref", node.pointer, "leads back to itself before any value is read");
    }
    if (this.#under.size >= schemaLimits.inPlaceDepth) {
      refuse("$ref", node.pointer, "leads through too many schemas");
    }
    this.#under.add(literal);
    const parts = literal % 2 === 0 ? this.#holds(node) : complementOf(this, node);
    this.#under.delete(literal);
    this.#known.set(literal, parts);
    return parts;
  }

  #holds(node: SchemaNode): readonly Part[] {
    const { raw, pointer } = node;
    if (raw === true) return anyValue(pointer);
    if (raw === false) return this.noted([], "false", pointer);
    for (const keyword of Object.keys(raw)) {
      const why = Object.hasOwn(refusedKeywords, keyword) ? refusedKeywords[keyword] : undefined;
      if (why !== undefined) refuse(keyword, pointerTo(pointer, keyword), why);
    }
    let parts: readonly Part[] | undefined;
    const narrow = (more: readonly Part[], keyword: string) => {
      parts = this.noted(
        parts === undefined ? more : this.meet(parts, more),
        keyword,
        pointerTo(pointer, keyword),
      );
    };
    if (saysSomethingItself(raw)) narrow(ownParts(node, raw, this), "type");
    if (Object.hasOwn(raw, "const")) narrow([{ kind: "values", values: [raw["const"]] }], "const");
    const listed = listAt(node, raw, "enum");
    if (listed) narrow(listed.length === 0 ? [] : [{ kind: "values", values: listed }], "enum");
    const reference = own(raw, "$ref");
    if (reference !== undefined) {
      if (typeof reference !== "string") {
        refuse("$ref", pointerTo(pointer, "$ref"), "has to be a string");
      }
      narrow(this.of(this.literal(this.document.resolve(node, reference))), "$ref");
    }
    for (const [index] of (listAt(node, raw, "allOf") ?? []).entries()) {
      narrow(this.of(this.child(node, "allOf", index)), "allOf");
    }
    const some = listAt(node, raw, "anyOf");
    if (some) {
      narrow(
        this.unique(some.flatMap((_, index) => this.of(this.child(node, "anyOf", index)))),
        "anyOf",
      );
    }
    if (own(raw, "not") !== undefined) {
      narrow(this.of(this.negated(this.child(node, "not"))), "not");
    }
    for (const { keyword, parts: either } of conditionsOf(this, node, raw)) narrow(either, keyword);
    const one = listAt(node, raw, "oneOf");
    if (one) {
      parts = this.noted(
        exactlyOne(this, node, parts ?? anyValue(pointer), one.length),
        "oneOf",
        pointerTo(pointer, "oneOf"),
      );
    }
    return restrictUnevaluated(this, node, raw, parts ?? anyValue(pointer));
  }
}

const ownKeywords: readonly string[] = ["type", ...Object.values(keywordsByType).flat()];

function saysSomethingItself(raw: Raw): boolean {
  return ownKeywords.some((keyword) => Object.hasOwn(raw, keyword));
}
