import { dictionaryMethods, listMethods } from "./collection-methods.ts";
import { formatBraces } from "./format-text.ts";
import { toText } from "./print-value.ts";
import { textMethods } from "./text-methods.ts";
import {
  type Arguments,
  Attributes,
  type Callable,
  LazyList,
  nameType,
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
  if (!Array.isArray(items)) return undefined;
  const indices = listSliceIndices(items.length, toIndex(start), toIndex(stop), toIndex(step) ?? 1);
  const selected = indices.map((index) => items[index]);
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
  if (Array.isArray(value)) return bind(listMethods, value);
  return value instanceof Attributes ? value.values.get(name) : undefined;
}

function findItem(value: Value, key: Value): Value {
  if (value instanceof Map) return value.get(key);
  if (typeof key !== "number" && typeof key !== "boolean") return undefined;
  if (Array.isArray(value)) return value instanceof LazyList ? undefined : value.at(Number(key));
  return typeof value === "string" ? Array.from(value).at(Number(key)) : undefined;
}

function assertDefined(object: Value, key: Value): void {
  if (object !== undefined) return;
  const name = typeof key === "string" ? ` "${key}"` : "";
  throw new TypeError(`an undefined value has no member${name}`);
}

function toIndex(value: Value): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "number" || typeof value === "boolean") return Number(value);
  throw new TypeError(`${nameType(value)} cannot be an index of a slice`);
}

function listSliceIndices(
  length: number,
  start: number | undefined,
  stop: number | undefined,
  step: number,
): readonly number[] {
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
  const count = Math.max(0, Math.ceil((end - first) / step));
  return Array.from({ length: count }, (_, index) => first + index * step);
}
