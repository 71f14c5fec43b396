import { getOwn } from "../../../base/json.ts";
import { readAssertions, readList } from "./assertion-keywords.ts";
import { complementSchema } from "./complement.ts";
import { expandConditionals } from "./conditional-keywords.ts";
import { intersectAlternatives } from "./intersect.ts";
import { keywordsByType, unsupportedKeywords } from "./keyword-tables.ts";
import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import { anyValue, getAlternativeKey } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import { normalizeOneOf } from "./one-of-branches.ts";
import type { ScalarGrammar } from "./scalar-constraints.ts";
import type { SchemaDocument, SchemaNode } from "./schema-document.ts";
import { schemaLimits } from "./schema-limits.ts";
import { extendPointer, refuseKeyword } from "./schema-refusal.ts";
import { restrictUnevaluated } from "./unevaluated.ts";
import { matchesAlternative } from "./value-matching.ts";

type Raw = Readonly<Record<string, unknown>>;

/** Computes the normal forms of the schemas in one document and caches them. Each compilation needs a new instance. */
export class SchemaNormalizer implements NormalizerContext {
  readonly document: SchemaDocument;
  readonly scalars: ScalarGrammar;
  /**
   * The reasons why parts of the schema allow no value, oldest first. If the whole schema allows no value, its error
   * message quotes these reasons.
   */
  readonly contradictions: string[] = [];
  readonly #nodes: SchemaNode[] = [];
  readonly #byLiteral = new Map<number, readonly Alternative[]>();
  readonly #byConjunction = new Map<string, readonly Alternative[]>();
  readonly #inProgress = new Set<number>();
  readonly #nothing: SchemaConjunction;
  #facetCount = 0;
  #alternativeCount = 0;

  constructor(document: SchemaDocument, scalars: ScalarGrammar) {
    this.document = document;
    this.scalars = scalars;
    this.#nothing = this.toLiteral(document.createSynthetic(false, "#"));
  }

  get nothing(): SchemaConjunction {
    return this.#nothing;
  }

  nextFacetId(): number {
    this.#facetCount += 1;
    return this.#facetCount;
  }

  toLiteral(node: SchemaNode, negated = false): SchemaConjunction {
    this.#nodes[node.id] = node;
    return [node.id * 2 + (negated ? 1 : 0)];
  }

  child(node: SchemaNode, ...steps: readonly (string | number)[]): SchemaConjunction {
    return this.toLiteral(this.document.child(node, ...steps));
  }

  /** Returns the negation of a conjunction, which must contain exactly one schema. */
  negate(schemas: SchemaConjunction): SchemaConjunction {
    return schemas.map((literal) => literal ^ 1);
  }

  normalize(schemas: SchemaConjunction): readonly Alternative[] {
    const [first, ...others] = schemas;
    if (first === undefined) return anyValue(this.document.root.pointer);
    if (others.length === 0) return this.#normalizeLiteral(first);
    const key = schemas.join();
    let alternatives = this.#byConjunction.get(key);
    if (!alternatives) {
      alternatives = this.#normalizeLiteral(first);
      for (const literal of others)
        alternatives = this.intersect(alternatives, this.#normalizeLiteral(literal));
      this.#byConjunction.set(key, alternatives);
    }
    return alternatives;
  }

  intersect(left: readonly Alternative[], right: readonly Alternative[]): readonly Alternative[] {
    const found: Alternative[] = [];
    for (const one of left) {
      for (const other of right) {
        const both = this.intersectPair(one, other);
        if (both) found.push(both);
      }
    }
    return this.deduplicate(found);
  }

  intersectPair(one: Alternative, other: Alternative): Alternative | undefined {
    this.#countAlternative();
    if (one.kind === "values" || other.kind === "values") {
      const [named, filter] = one.kind === "values" ? [one, other] : [other, one];
      if (named.kind !== "values") return undefined;
      const values = named.values.filter((value) => matchesAlternative(this, filter, value));
      return values.length === 0 ? undefined : { kind: "values", values };
    }
    return intersectAlternatives(one, other);
  }

  deduplicate(alternatives: readonly Alternative[]): readonly Alternative[] {
    if (alternatives.length < 2) return alternatives;
    return [
      ...new Map(
        alternatives.map((alternative) => [getAlternativeKey(alternative), alternative]),
      ).values(),
    ];
  }

  recordContradiction(reason: string): void {
    if (this.contradictions.length < 3) this.contradictions.push(reason);
  }

  /** Returns the alternatives unchanged. If there are none, records a contradiction first. */
  recordIfEmpty(
    alternatives: readonly Alternative[],
    keyword: string,
    pointer: string,
  ): readonly Alternative[] {
    if (alternatives.length === 0)
      this.recordContradiction(`"${keyword}" at ${pointer} excludes every value`);
    return alternatives;
  }

  #countAlternative(): void {
    this.#alternativeCount += 1;
    if (this.#alternativeCount > schemaLimits.alternatives) {
      refuseKeyword(
        "allOf, anyOf, oneOf, if or not",
        this.document.root.pointer,
        "result in too many combined alternatives",
      );
    }
  }

  #normalizeLiteral(literal: number): readonly Alternative[] {
    const known = this.#byLiteral.get(literal);
    if (known) return known;
    const node = this.#nodes[literal >> 1];
    if (!node) throw new Error("a conjunction refers to an unknown schema");
    if (this.#inProgress.has(literal)) {
      refuseKeyword("$ref", node.pointer, "refers to itself without an object or array in between");
    }
    if (this.#inProgress.size >= schemaLimits.inPlaceDepth) {
      refuseKeyword("$ref", node.pointer, "refers through too many schemas");
    }
    this.#inProgress.add(literal);
    const alternatives =
      literal % 2 === 0 ? this.#normalizeNode(node) : complementSchema(this, node);
    this.#inProgress.delete(literal);
    this.#byLiteral.set(literal, alternatives);
    return alternatives;
  }

  #normalizeNode(node: SchemaNode): readonly Alternative[] {
    const { raw, pointer } = node;
    if (raw === true) return anyValue(pointer);
    if (raw === false) return this.recordIfEmpty([], "false", pointer);
    for (const keyword of Object.keys(raw)) {
      const why = Object.hasOwn(unsupportedKeywords, keyword)
        ? unsupportedKeywords[keyword]
        : undefined;
      if (why !== undefined) refuseKeyword(keyword, extendPointer(pointer, keyword), why);
    }
    let alternatives: readonly Alternative[] | undefined;
    const narrow = (more: readonly Alternative[], keyword: string) => {
      alternatives = this.recordIfEmpty(
        alternatives === undefined ? more : this.intersect(alternatives, more),
        keyword,
        extendPointer(pointer, keyword),
      );
    };
    if (hasAssertions(raw)) narrow(readAssertions(node, raw, this), "type");
    if (Object.hasOwn(raw, "const")) narrow([{ kind: "values", values: [raw["const"]] }], "const");
    const listed = readList(node, raw, "enum");
    if (listed) narrow(listed.length === 0 ? [] : [{ kind: "values", values: listed }], "enum");
    const reference = getOwn(raw, "$ref");
    if (reference !== undefined) {
      if (typeof reference !== "string") {
        refuseKeyword("$ref", extendPointer(pointer, "$ref"), "must be a string");
      }
      narrow(this.normalize(this.toLiteral(this.document.resolve(node, reference))), "$ref");
    }
    for (const [index] of (readList(node, raw, "allOf") ?? []).entries()) {
      narrow(this.normalize(this.child(node, "allOf", index)), "allOf");
    }
    const some = readList(node, raw, "anyOf");
    if (some) {
      narrow(
        this.deduplicate(
          some.flatMap((_, index) => this.normalize(this.child(node, "anyOf", index))),
        ),
        "anyOf",
      );
    }
    if (getOwn(raw, "not") !== undefined) {
      narrow(this.normalize(this.negate(this.child(node, "not"))), "not");
    }
    for (const { keyword, alternatives: either } of expandConditionals(this, node, raw))
      narrow(either, keyword);
    const one = readList(node, raw, "oneOf");
    if (one) {
      alternatives = this.recordIfEmpty(
        normalizeOneOf(this, node, alternatives ?? anyValue(pointer), one.length),
        "oneOf",
        extendPointer(pointer, "oneOf"),
      );
    }
    return restrictUnevaluated(this, node, raw, alternatives ?? anyValue(pointer));
  }
}

const assertionKeywords: readonly string[] = ["type", ...Object.values(keywordsByType).flat()];

function hasAssertions(raw: Raw): boolean {
  return assertionKeywords.some((keyword) => Object.hasOwn(raw, keyword));
}
