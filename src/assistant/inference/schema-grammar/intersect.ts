import type { Alternative, ArrayAlternative, ObjectAlternative } from "./normal-form.ts";
import { conjoin } from "./normal-form.ts";
import type { NumberConstraints, StringConstraints, StringPattern } from "./scalar-constraints.ts";
import { refuseKeyword } from "./schema-refusal.ts";

/**
 * Returns an alternative for the values that both alternatives allow; undefined if they obviously share no value. The
 * caller must handle alternatives of the kind `values` itself.
 */
export function intersectAlternatives(
  left: Alternative,
  right: Alternative,
): Alternative | undefined {
  if (left.kind === "null" || left.kind === "boolean") {
    return left.kind === right.kind ? left : undefined;
  }
  if (left.kind === "number" && right.kind === "number") {
    return { kind: "number", constraints: intersectNumbers(left.constraints, right.constraints) };
  }
  if (left.kind === "string" && right.kind === "string") {
    const constraints = intersectStrings(left.constraints, right.constraints);
    return isNonEmptyRange(constraints.minLength ?? 0, constraints.maxLength)
      ? { kind: "string", constraints }
      : undefined;
  }
  if (left.kind === "array" && right.kind === "array") return intersectArrays(left, right);
  if (left.kind === "object" && right.kind === "object") return intersectObjects(left, right);
  return undefined;
}

function intersectArrays(
  left: ArrayAlternative,
  right: ArrayAlternative,
): ArrayAlternative | undefined {
  const min = Math.max(left.min, right.min);
  const max = minDefined(left.max, right.max);
  if (!isNonEmptyRange(min, max)) return undefined;
  const contains = [...left.contains];
  for (const entry of right.contains) if (!contains.includes(entry)) contains.push(entry);
  return {
    kind: "array",
    facets: mergeById(left.facets, right.facets),
    min,
    max,
    unique: left.unique || right.unique,
    contains,
    pointer: left.facets.length > 0 ? left.pointer : right.pointer,
  };
}

function intersectObjects(
  left: ObjectAlternative,
  right: ObjectAlternative,
): ObjectAlternative | undefined {
  const min = Math.max(left.min, right.min);
  const max = minDefined(left.max, right.max);
  const required = mergeUnique(left.required, right.required);
  const forbidden = mergeUnique(left.forbidden, right.forbidden);
  if (!isNonEmptyRange(Math.max(min, required.length), max)) return undefined;
  if (required.some((name) => forbidden.includes(name))) return undefined;
  return {
    kind: "object",
    facets: mergeById(left.facets, right.facets),
    required,
    forbidden,
    min,
    max,
    names: conjoin(left.names, right.names),
    pointer: left.facets.length > 0 ? left.pointer : right.pointer,
  };
}

export function intersectStrings(
  left: StringConstraints,
  right: StringConstraints,
): StringConstraints {
  return {
    minLength: maxDefined(left.minLength, right.minLength),
    maxLength: minDefined(left.maxLength, right.maxLength),
    patterns: mergeBySource(left.patterns, right.patterns),
    forbiddenPatterns: mergeBySource(left.forbiddenPatterns, right.forbiddenPatterns),
    formats: mergeBySource(left.formats, right.formats),
    excluded: mergeUnique(left.excluded, right.excluded),
  };
}

function intersectNumbers(left: NumberConstraints, right: NumberConstraints): NumberConstraints {
  return {
    integer: left.integer || right.integer,
    minimum: maxDefined(left.minimum, right.minimum),
    maximum: minDefined(left.maximum, right.maximum),
    exclusiveMinimum: maxDefined(left.exclusiveMinimum, right.exclusiveMinimum),
    exclusiveMaximum: minDefined(left.exclusiveMaximum, right.exclusiveMaximum),
    multipleOf:
      left.multipleOf === undefined || right.multipleOf === undefined
        ? (left.multipleOf ?? right.multipleOf)
        : leastCommonMultiple(left.multipleOf, right.multipleOf, left.pointer),
    pointer: left.pointer,
  };
}

/** Computes the exact least common multiple of two decimals by scaling them to integers. */
function leastCommonMultiple(left: number, right: number, pointer: string): number {
  if (left === right) return left;
  const [first, second] = [toDecimal(left), toDecimal(right)];
  const scale = Math.max(first.scale, second.scale);
  const a = first.digits * 10n ** BigInt(scale - first.scale);
  const b = second.digits * 10n ** BigInt(scale - second.scale);
  let [x, y] = [a, b];
  while (y !== 0n) [x, y] = [y, x % y];
  const digits = (a / x) * b;
  if (digits > Number.MAX_SAFE_INTEGER) {
    return refuseKeyword(
      "multipleOf",
      pointer,
      "has no common multiple with another multipleOf that a double can represent",
    );
  }
  return Number(`${digits}e-${scale}`);
}

function toDecimal(value: number): { digits: bigint; scale: number } {
  const [mantissa = "0", exponent = "0"] = value.toExponential().split("e");
  const [whole = "0", fraction = ""] = mantissa.split(".");
  const scale = fraction.length - Number(exponent);
  const digits = BigInt(whole + fraction);
  return scale < 0 ? { digits: digits * 10n ** BigInt(-scale), scale: 0 } : { digits, scale };
}

function isNonEmptyRange(min: number, max: number | undefined): boolean {
  return max === undefined || min <= max;
}

export function maxDefined(
  left: number | undefined,
  right: number | undefined,
): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.max(left, right);
}

export function minDefined(
  left: number | undefined,
  right: number | undefined,
): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}

function mergeUnique(left: readonly string[], right: readonly string[]): readonly string[] {
  if (right.length === 0) return left;
  return left.length === 0 ? right : [...new Set([...left, ...right])];
}

function mergeById<Facet extends { readonly id: number }>(
  left: readonly Facet[],
  right: readonly Facet[],
): readonly Facet[] {
  if (right.length === 0) return left;
  const known = new Set(left.map((facet) => facet.id));
  const more = right.filter((facet) => !known.has(facet.id));
  return more.length === 0 ? left : [...left, ...more];
}

function mergeBySource(
  left: readonly StringPattern[],
  right: readonly StringPattern[],
): readonly StringPattern[] {
  if (right.length === 0) return left;
  const known = new Set(left.map((entry) => entry.source));
  return [...left, ...right.filter((entry) => !known.has(entry.source))];
}
