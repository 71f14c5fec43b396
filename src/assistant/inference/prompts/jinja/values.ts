/**
 * A value of the template language, which has the semantics of Python. `undefined` is the language's undefined value,
 * `null` is None. Integers are numbers; `Float` keeps Python's distinction of `1.0` from `1`.
 */
export type Value =
  | undefined
  | null
  | boolean
  | number
  | string
  | Float
  | SafeText
  | List
  | Map<Value, Value>
  | Attributes
  | Callable;

export type List = Value[];
export type Dictionary = Map<Value, Value>;
export type Callable = (args: Arguments) => Value;

export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/** Text that the filter `safe` has marked: text that is added to it is escaped for HTML, as in Jinja. */
export class SafeText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A tuple is a list that compares and prints differently. */
export class Tuple extends Array<Value> {
  /** The methods of arrays return lists. */
  static override get [Symbol.species]() {
    return Array;
  }

  static create(...items: readonly Value[]): Tuple {
    const tuple = new Tuple();
    tuple.push(...items);
    return tuple;
  }
}

/** A group of values with equal attributes: `(grouper, list)`. */
export class Group extends Tuple {
  static fromValues(grouper: Value, list: List): Group {
    const group = new Group();
    group.push(grouper, list);
    return group;
  }
}

/**
 * The result of a filter that Jinja evaluates lazily. It is always true, has no items to select by index, and is empty
 * after it has been read once.
 */
export class LazyList extends Array<Value> {
  static override get [Symbol.species]() {
    return Array;
  }

  static create(items: Iterable<Value>): LazyList {
    const list = new LazyList();
    for (const item of items) list.push(item);
    return list;
  }
}

/** The numbers of `range()`, which Python prints as the call that creates them. */
export class NumberRange extends Array<Value> {
  static override get [Symbol.species]() {
    return Array;
  }

  from = 0;
  to = 0;
  step = 1;

  /** The step must not be zero. */
  static create(from: number, to: number, step: number): NumberRange {
    const range = new NumberRange();
    for (let number = from; step > 0 ? number < to : number > to; number += step)
      range.push(number);
    return Object.assign(range, { from, to, step });
  }
}

/** The keys, values or items of a dictionary, which have no index, and which Python prints with a name. */
export class DictionaryView extends Array<Value> {
  static override get [Symbol.species]() {
    return Array;
  }

  name = "";

  static create(name: string, items: Iterable<Value>): DictionaryView {
    const view = new DictionaryView();
    for (const item of items) view.push(item);
    view.name = name;
    return view;
  }
}

/** Returns true for lists whose items cannot be selected by index. */
export function hasNoIndex(value: Value): boolean {
  return value instanceof LazyList || value instanceof DictionaryView;
}

/** An object with attributes but without items, such as a namespace or the variable `loop`. */
export class Attributes {
  readonly #values: Map<string, Value>;

  constructor(values: Iterable<readonly [string, Value]> = []) {
    this.#values = new Map(values);
  }

  get(name: string): Value {
    return this.#values.get(name);
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}

/** The arguments of a call. */
export class Arguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;

  constructor(positional: readonly Value[], named: ReadonlyMap<string, Value> = new Map()) {
    this.positional = positional;
    this.named = named;
  }

  /** Returns the argument with this index or name; undefined if the call does not have it. */
  get(index: number, name: string): Value {
    return index < this.positional.length ? this.positional[index] : this.named.get(name);
  }

  getText(index: number, name: string, fallback: string): string {
    const value = this.get(index, name) ?? fallback;
    if (typeof value === "string") return value;
    throw new TypeError(`${name} must be a string, not ${nameType(value)}`);
  }

  getInteger(index: number, name: string, fallback: number): number {
    const value = this.get(index, name) ?? fallback;
    if (typeof value === "number" || typeof value === "boolean") return Number(value);
    throw new TypeError(`${name} must be an integer, not ${nameType(value)}`);
  }

  getBoolean(index: number, name: string, fallback = false): boolean {
    const value = this.get(index, name);
    return value === undefined ? fallback : isTruthy(value);
  }
}

/** Converts JSON values to values of the template language. */
export function toValue(value: unknown): Value {
  if (typeof value === "number") return Number.isInteger(value) ? value : new Float(value);
  if (Array.isArray(value)) return value.map((item: unknown) => toValue(item));
  if (value instanceof Float) return value;
  if (typeof value === "object" && value !== null) {
    return new Map(Object.entries(value).map(([key, item]) => [key, toValue(item)]));
  }
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (value === undefined) return undefined;
  throw new TypeError(`a template has no values of type ${typeof value}`);
}

/** Returns the text of a `SafeText`, and other values unchanged. */
export function withoutSafety(value: Value): Exclude<Value, SafeText> {
  return value instanceof SafeText ? value.text : value;
}

/** Returns the numeric value of a number or boolean; undefined for other values. */
export function toNumber(value: Value): number | undefined {
  if (value instanceof Float) return value.value;
  return typeof value === "number" || typeof value === "boolean" ? Number(value) : undefined;
}

export function isTruthy(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0 || value instanceof LazyList;
  if (value instanceof Map) return value.size > 0;
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof SafeText) return value.text !== "";
  return Boolean(value);
}

export function equals(left: Value, right: Value): boolean {
  const one = withoutSafety(left);
  const other = withoutSafety(right);
  if (one === other) return true;
  const number = toNumber(one);
  if (number !== undefined) return number === toNumber(other);
  if (Array.isArray(one) && Array.isArray(other)) {
    return (
      one.constructor === other.constructor &&
      one.length === other.length &&
      one.every((item, index) => equals(item, other[index]))
    );
  }
  if (one instanceof Map && other instanceof Map) {
    return (
      one.size === other.size &&
      [...one].every(([key, item]) => other.has(key) && equals(item, other.get(key)))
    );
  }
  return false;
}

/** Returns a negative number, zero or a positive number. Throws for values that have no order. */
export function compare(left: Value, right: Value): number {
  const [one, other] = [toNumber(left), toNumber(right)];
  if (one !== undefined && other !== undefined) return one - other;
  if (typeof left === "string" && typeof right === "string") return compareTexts(left, right);
  if (Array.isArray(left) && Array.isArray(right)) {
    const at = left.findIndex(
      (item, index) => index >= right.length || !equals(item, right[index]),
    );
    if (at === -1) return left.length - right.length;
    return at >= right.length ? 1 : compare(left[at], right[at]);
  }
  throw new TypeError(`${nameType(left)} and ${nameType(right)} cannot be compared`);
}

/** Compares code points as Python does; JavaScript compares UTF-16 units. */
function compareTexts(left: string, right: string): number {
  const others = right[Symbol.iterator]();
  for (const character of left) {
    const other = others.next();
    if (other.done === true) return 1;
    const difference = (character.codePointAt(0) ?? 0) - (other.value.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return others.next().done === true ? 0 : -1;
}

/**
 * Returns the items that a loop over the value has, and empties a lazy list. Throws if the value cannot be iterated.
 */
export function iterate(value: Value): readonly Value[] {
  if (value instanceof LazyList) return value.splice(0);
  if (Array.isArray(value)) return value;
  if (value instanceof Map) return [...value.keys()];
  if (value === undefined) return [];
  const plain = withoutSafety(value);
  if (typeof plain === "string") return Array.from(plain);
  throw new TypeError(`${nameType(value)} is not iterable`);
}

export function getLength(value: Value): number {
  if (Array.isArray(value)) return value.length;
  if (value instanceof Map) return value.size;
  if (value === undefined || typeof value === "string") return iterate(value).length;
  throw new TypeError(`${nameType(value)} has no length`);
}

/** Returns true if the text, list, tuple or dictionary contains the value. */
export function contains(container: Value, value: Value): boolean {
  if (typeof container === "string") {
    if (typeof value === "string") return container.includes(value);
    throw new TypeError(`${nameType(value)} cannot be searched in a string`);
  }
  if (container instanceof Map) return container.has(value);
  return iterate(container).some((item) => equals(item, value));
}

/** Returns the name of the value's type, for messages. */
export function nameType(value: Value): string {
  if (value === undefined) return "an undefined value";
  if (value === null) return "none";
  if (value instanceof Tuple) return "a tuple";
  if (Array.isArray(value)) return "a list";
  if (value instanceof Map) return "a dictionary";
  if (value instanceof Float) return "a float";
  if (typeof value === "number") return "an integer";
  if (typeof value === "string" || value instanceof SafeText) return "a string";
  return typeof value === "function" ? "a function" : `a ${typeof value}`;
}
