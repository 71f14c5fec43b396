import { listItems } from "./collection-methods.ts";
import { getItem } from "./get-member.ts";
import { applyOperator } from "./operators.ts";
import { toText } from "./print-value.ts";
import { applyTest } from "./value-tests.ts";
import {
  Arguments,
  compare,
  equals,
  Group,
  isTruthy,
  iterate,
  LazyList,
  type List,
  nameType,
  type Value,
} from "./values.ts";

type ApplyFilter = (name: string, value: Value, args: Arguments) => Value;
type SequenceFilter = (value: Value, args: Arguments, apply: ApplyFilter) => Value;

/** The filters that read a sequence of values. `apply` applies another filter to one value. */
export const sequenceFilters: ReadonlyMap<string, SequenceFilter> = new Map<string, SequenceFilter>(
  [
    ["batch", (value, args) => batch(iterate(value), args)],
    ["dictsort", (value, args) => sortDictionary(value, args)],
    ["first", (value) => iterate(value)[0]],
    ["groupby", (value, args) => groupBy(iterate(value), args)],
    ["join", (value, args) => join(value, args)],
    ["last", (value) => iterate(value).at(-1)],
    ["list", (value) => [...iterate(value)]],
    ["map", (value, args, apply) => map(iterateIfTrue(value), args, apply)],
    ["max", (value, args) => sort(iterate(value), toOrder(args), true)[0]],
    ["min", (value, args) => sort(iterate(value), toOrder(args))[0]],
    [
      "reject",
      (value, args) => select(iterateIfTrue(value), args, { has: false, attribute: false }),
    ],
    [
      "rejectattr",
      (value, args) => select(iterateIfTrue(value), args, { has: false, attribute: true }),
    ],
    ["reverse", (value) => reverse(value)],
    [
      "select",
      (value, args) => select(iterateIfTrue(value), args, { has: true, attribute: false }),
    ],
    [
      "selectattr",
      (value, args) => select(iterateIfTrue(value), args, { has: true, attribute: true }),
    ],
    ["slice", (value, args) => slice(iterate(value), args)],
    ["sort", (value, args) => sortValues(value, args)],
    ["sum", (value, args) => sum(iterate(value), args)],
    ["unique", (value, args) => removeDuplicates(iterate(value), toOrder(args))],
  ],
);

/** The filters that select or convert values read a false value, such as none, as an empty list. */
function iterateIfTrue(value: Value): readonly Value[] {
  return isTruthy(value) ? iterate(value) : [];
}

/** How values are compared with each other. */
interface Order {
  readonly isCaseSensitive: boolean;
  /** The attribute that is compared; undefined compares the values themselves. */
  readonly attribute: Value;
  /** Replaces an attribute that is undefined. */
  readonly fallback?: Value;
}

function toOrder(args: Arguments): Order {
  return {
    isCaseSensitive: args.getBoolean(0, "case_sensitive"),
    attribute: args.get(1, "attribute") ?? undefined,
  };
}

function getKey(value: Value, { attribute, isCaseSensitive, fallback }: Order): Value {
  const key = getPath(value, attribute, fallback);
  return typeof key === "string" && !isCaseSensitive ? key.toLowerCase() : key;
}

/** Reads an attribute such as `function.name` or `items.0`. */
function getPath(value: Value, attribute: Value, fallback?: Value): Value {
  if (attribute === undefined) return value;
  return toText(attribute)
    .split(".")
    .reduce<Value>(
      (object, name) => getItem(object, /^\d+$/.test(name) ? Number(name) : name) ?? fallback,
      value,
    );
}

function sort(values: readonly Value[], order: Order, isReversed = false): List {
  const compareKeys = (one: Value, other: Value): number =>
    compare(getKey(one, order), getKey(other, order));
  // Equal values keep the order that they had before, even if the order is reversed.
  return values.toSorted((one, other) =>
    isReversed ? compareKeys(other, one) : compareKeys(one, other),
  );
}

function sortValues(value: Value, args: Arguments): List {
  const order = {
    isCaseSensitive: args.getBoolean(1, "case_sensitive"),
    attribute: args.get(2, "attribute") ?? undefined,
  };
  return sort(iterate(value), order, args.getBoolean(0, "reverse"));
}

function sortDictionary(value: Value, args: Arguments): List {
  if (!(value instanceof Map)) throw new TypeError(`${nameType(value)} is not a dictionary`);
  const order = {
    isCaseSensitive: args.getBoolean(0, "case_sensitive"),
    attribute: args.getText(1, "by", "key") === "value" ? 1 : 0,
  };
  return sort(listItems(value), order, args.getBoolean(2, "reverse"));
}

function join(value: Value, args: Arguments): string {
  const attribute = args.get(1, "attribute") ?? undefined;
  return iterate(value)
    .map((item) => toText(getPath(item, attribute)))
    .join(toText(args.get(0, "d")));
}

function map(values: readonly Value[], args: Arguments, apply: ApplyFilter): List {
  const [filter, ...rest] = args.positional;
  if (typeof filter === "string") {
    const inner = new Arguments(rest, args.named);
    return LazyList.create(values.map((value) => apply(filter, value, inner)));
  }
  const attribute = args.named.get("attribute");
  if (attribute === undefined) throw new TypeError("map() needs a filter or an attribute");
  const fallback = args.named.get("default") ?? undefined;
  return LazyList.create(values.map((value) => getPath(value, attribute, fallback)));
}

function select(
  values: readonly Value[],
  args: Arguments,
  { has, attribute }: { readonly has: boolean; readonly attribute: boolean },
): List {
  const [path, name, argument] = attribute ? args.positional : [undefined, ...args.positional];
  return LazyList.create(
    values.filter((item) => {
      const value = getPath(item, path);
      return (
        (name === undefined ? isTruthy(value) : applyTest(toText(name), value, argument)) === has
      );
    }),
  );
}

function reverse(value: Value): Value {
  const reversed = iterate(value).toReversed();
  return typeof value === "string"
    ? reversed.map((item) => toText(item)).join("")
    : LazyList.create(reversed);
}

function sum(values: readonly Value[], args: Arguments): Value {
  const attribute = args.get(0, "attribute") ?? undefined;
  const start = args.get(1, "start") ?? 0;
  return values.reduce<Value>(
    (total, value) => applyOperator("+", total, getPath(value, attribute)),
    start,
  );
}

function removeDuplicates(values: readonly Value[], order: Order): List {
  const kept: { readonly key: Value; readonly value: Value }[] = [];
  for (const value of values) {
    const key = getKey(value, order);
    if (!kept.some((other) => equals(other.key, key))) kept.push({ key, value });
  }
  return LazyList.create(kept.map(({ value }) => value));
}

function groupBy(values: readonly Value[], args: Arguments): List {
  const order = {
    isCaseSensitive: args.getBoolean(2, "case_sensitive"),
    attribute: args.get(0, "attribute"),
    fallback: args.get(1, "default") ?? undefined,
  };
  const groups: { readonly key: Value; readonly first: Value; readonly members: List }[] = [];
  for (const value of sort(values, order)) {
    const key = getKey(value, order);
    const group = groups.at(-1);
    if (group !== undefined && equals(group.key, key)) group.members.push(value);
    else
      groups.push({
        key,
        first: getKey(value, { ...order, isCaseSensitive: true }),
        members: [value],
      });
  }
  return groups.map(({ first, members }) => Group.fromValues(first, members));
}

function batch(values: readonly Value[], args: Arguments): List {
  const size = args.getInteger(0, "linecount", 1);
  if (size < 1) throw new RangeError("batch() needs a positive number");
  const fill = args.get(1, "fill_with");
  const rows: List = [];
  for (let at = 0; at < values.length; at += size) {
    const row = values.slice(at, at + size);
    if (fill !== undefined && fill !== null) while (row.length < size) row.push(fill);
    rows.push(row);
  }
  return LazyList.create(rows);
}

/** Distributes the values to lists of about equal length, the longer ones first. */
function slice(values: readonly Value[], args: Arguments): List {
  const count = args.getInteger(0, "slices", 1);
  if (count < 1 || count > SLICES_MAX)
    throw new RangeError(`slice() needs a number from 1 to ${SLICES_MAX}`);
  const fill = args.get(1, "fill_with");
  const size = Math.floor(values.length / count);
  const longer = values.length % count;
  const rows: List = [];
  for (let index = 0; index < count; index += 1) {
    const start = index * size + Math.min(index, longer);
    const row = values.slice(start, start + size + (index < longer ? 1 : 0));
    if (fill !== undefined && fill !== null && index >= longer) row.push(fill);
    rows.push(row);
  }
  return LazyList.create(rows);
}

const SLICES_MAX = 10_000;
