import { dictionaryMethods, listMethods } from "./collection-methods.ts";
import { formatBraces } from "./format-text.ts";
import { toText } from "./print-value.ts";
import { textMethods } from "./text-methods.ts";
import {
  type Arguments,
  Attributes,
  type Callable,
  Group,
  hasNoIndex,
  NumberRange,
  Tuple,
  type Value,
  withoutSafety,
} from "./values.ts";

/** Evaluates `object.name`: a method of the value's type comes before an item of a dictionary. */
export function getAttribute(object: Value, name: string): Value {
  assertDefined(object, name);
  const value = withoutSafety(object);
  const method = findMethod(value, name);
  return method === undefined ? findItem(value, name) : method;
}

/** Evaluates `object[key]`: an item of a dictionary comes before a method. */
export function getItem(object: Value, key: Value): Value {
  assertDefined(object, key);
  const value = withoutSafety(object);
  const item = findItem(value, withoutSafety(key));
  return item === undefined && typeof key === "string" ? findMethod(value, key) : item;
}

/** Evaluates `object[start:stop:step]`. */
export function getSlice(object: Value, start: Value, stop: Value, step: Value): Value {
  assertDefined(object, "[:]");
  const value = withoutSafety(object);
  const items = typeof value === "string" ? Array.from(value) : value;
  if (!Array.isArray(items) || hasNoIndex(items)) return undefined;
  if (![start, stop, step].every((part) => isSliceIndex(part))) return undefined;
  const indices = selectIndices(items.length, toIndex(start), toIndex(stop), toIndex(step) ?? 1);
  if (value instanceof NumberRange) {
    const [from, to] = [indices.from, indices.to].map((at) => value.from + at * value.step);
    return NumberRange.create(from ?? 0, to ?? 0, value.step * indices.step);
  }
  const selected = indices.map((index) => items[Number(index)]);
  if (typeof value === "string") return selected.map((item) => toText(item)).join("");
  return value instanceof Tuple ? Tuple.create(...selected) : selected;
}

function findMethod(value: Value, name: string): Value {
  const bind = <Self>(
    methods: ReadonlyMap<string, (self: Self, args: Arguments) => Value>,
    self: Self,
  ): Callable | undefined => {
    const method = methods.get(name);
    return method && ((args) => method(self, args));
  };
  if (typeof value === "string") {
    if (name === "format") return (args) => formatBraces(value, args, getItem);
    return bind(textMethods, value);
  }
  if (value instanceof Map) return bind(dictionaryMethods, value);
  if (value instanceof Group && name === "grouper") return value[0];
  if (value instanceof Group && name === "list") return value[1];
  if (Array.isArray(value)) return bind(listMethods, value);
  return value instanceof Attributes ? value.get(name) : undefined;
}

function findItem(value: Value, key: Value): Value {
  if (value instanceof Map) return value.get(key);
  if (typeof key !== "number" && typeof key !== "boolean") return undefined;
  if (Array.isArray(value)) return hasNoIndex(value) ? undefined : value.at(Number(key));
  return typeof value === "string" ? Array.from(value).at(Number(key)) : undefined;
}

function assertDefined(object: Value, key: Value): void {
  if (object !== undefined) return;
  const name = typeof key === "string" ? ` "${key}"` : "";
  throw new TypeError(`an undefined value has no member${name}`);
}

function isSliceIndex(value: Value): boolean {
  return value === undefined || value === null || ["number", "boolean"].includes(typeof value);
}

function toIndex(value: Value): number | undefined {
  return value === undefined || value === null ? undefined : Number(value);
}

function selectIndices(
  length: number,
  start: number | undefined,
  stop: number | undefined,
  step: number,
): NumberRange {
  if (step === 0) throw new RangeError("the step of a slice is zero");
  const isForward = step > 0;
  const clamp = (index: number): number => {
    const absolute = index < 0 ? index + length : index;
    return isForward
      ? Math.min(Math.max(absolute, 0), length)
      : Math.min(Math.max(absolute, -1), length - 1);
  };
  const first = start === undefined ? (isForward ? 0 : length - 1) : clamp(start);
  const end = stop === undefined ? (isForward ? length : -1) : clamp(stop);
  return NumberRange.create(first, end, step);
}
