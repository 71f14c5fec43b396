import type { ArrayPart, ObjectPart, Part } from "./part.ts";
import { bothHold } from "./part.ts";
import { refuse } from "./refusal.ts";
import type { NumberConstraints, StringConstraints, StringPattern } from "./scalars.ts";

/** What both allow; undefined where that is nothing at first sight. `values` are not dealt with here. */
export function intersect(left: Part, right: Part): Part | undefined {
  if (left.kind === "null" || left.kind === "boolean") {
    return left.kind === right.kind ? left : undefined;
  }
  if (left.kind === "number" && right.kind === "number") {
    return { kind: "number", constraints: bothNumbers(left.constraints, right.constraints) };
  }
  if (left.kind === "string" && right.kind === "string") {
    const constraints = bothStrings(left.constraints, right.constraints);
    return bounded(constraints.minLength ?? 0, constraints.maxLength)
      ? { kind: "string", constraints }
      : undefined;
  }
  if (left.kind === "array" && right.kind === "array") return bothArrays(left, right);
  if (left.kind === "object" && right.kind === "object") return bothObjects(left, right);
  return undefined;
}

function bothArrays(left: ArrayPart, right: ArrayPart): ArrayPart | undefined {
  const min = Math.max(left.min, right.min);
  const max = smaller(left.max, right.max);
  if (!bounded(min, max)) return undefined;
  const contains = [...left.contains];
  for (const entry of right.contains) if (!contains.includes(entry)) contains.push(entry);
  return {
    kind: "array",
    facets: byId(left.facets, right.facets),
    min,
    max,
    unique: left.unique || right.unique,
    contains,
    pointer: left.facets.length > 0 ? left.pointer : right.pointer,
  };
}

function bothObjects(left: ObjectPart, right: ObjectPart): ObjectPart | undefined {
  const min = Math.max(left.min, right.min);
  const max = smaller(left.max, right.max);
  const required = merged(left.required, right.required);
  const forbidden = merged(left.forbidden, right.forbidden);
  if (!bounded(Math.max(min, required.length), max)) return undefined;
  if (required.some((name) => forbidden.includes(name))) return undefined;
  return {
    kind: "object",
    facets: byId(left.facets, right.facets),
    required,
    forbidden,
    min,
    max,
    names: bothHold(left.names, right.names),
    pointer: left.facets.length > 0 ? left.pointer : right.pointer,
  };
}

export function bothStrings(left: StringConstraints, right: StringConstraints): StringConstraints {
  return {
    minLength: larger(left.minLength, right.minLength),
    maxLength: smaller(left.maxLength, right.maxLength),
    patterns: bySource(left.patterns, right.patterns),
    forbiddenPatterns: bySource(left.forbiddenPatterns, right.forbiddenPatterns),
    formats: bySource(left.formats, right.formats),
    excluded: merged(left.excluded, right.excluded),
  };
}

function bothNumbers(left: NumberConstraints, right: NumberConstraints): NumberConstraints {
  return {
    integer: left.integer || right.integer,
    minimum: larger(left.minimum, right.minimum),
    maximum: smaller(left.maximum, right.maximum),
    exclusiveMinimum: larger(left.exclusiveMinimum, right.exclusiveMinimum),
    exclusiveMaximum: smaller(left.exclusiveMaximum, right.exclusiveMaximum),
    multipleOf:
      left.multipleOf === undefined || right.multipleOf === undefined
        ? (left.multipleOf ?? right.multipleOf)
        : leastCommonMultiple(left.multipleOf, right.multipleOf, left.pointer),
    pointer: left.pointer,
  };
}

/** Of decimals, exactly: both are scaled to integers first. */
function leastCommonMultiple(left: number, right: number, pointer: string): number {
  if (left === right) return left;
  const [first, second] = [decimalOf(left), decimalOf(right)];
  const scale = Math.max(first.scale, second.scale);
  const a = first.digits * 10n ** BigInt(scale - first.scale);
  const b = second.digits * 10n ** BigInt(scale - second.scale);
  let [x, y] = [a, b];
  while (y !== 0n) [x, y] = [y, x % y];
  const digits = (a / x) * b;
  if (digits > Number.MAX_SAFE_INTEGER) {
    return refuse("multipleOf", pointer, "has no common multiple with another that a number holds");
  }
  return Number(`${digits}e-${scale}`);
}

function decimalOf(value: number): { digits: bigint; scale: number } {
  const [mantissa = "0", exponent = "0"] = value.toExponential().split("e");
  const [whole = "0", fraction = ""] = mantissa.split(".");
  const scale = fraction.length - Number(exponent);
  const digits = BigInt(whole + fraction);
  return scale < 0 ? { digits: digits * 10n ** BigInt(-scale), scale: 0 } : { digits, scale };
}

function bounded(min: number, max: number | undefined): boolean {
  return max === undefined || min <= max;
}

function larger(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.max(left, right);
}

function smaller(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}

function merged(left: readonly string[], right: readonly string[]): readonly string[] {
  if (right.length === 0) return left;
  return left.length === 0 ? right : [...new Set([...left, ...right])];
}

function byId<Facet extends { readonly id: number }>(
  left: readonly Facet[],
  right: readonly Facet[],
): readonly Facet[] {
  if (right.length === 0) return left;
  const known = new Set(left.map((facet) => facet.id));
  const more = right.filter((facet) => !known.has(facet.id));
  return more.length === 0 ? left : [...left, ...more];
}

function bySource(
  left: readonly StringPattern[],
  right: readonly StringPattern[],
): readonly StringPattern[] {
  if (right.length === 0) return left;
  const known = new Set(left.map((entry) => entry.source));
  return [...left, ...right.filter((entry) => !known.has(entry.source))];
}
