import {
  type Arguments,
  type Dictionary,
  DictionaryView,
  equals,
  iterate,
  type List,
  Tuple,
  type Value,
} from "./values.ts";

type ListMethod = (list: List, args: Arguments) => Value;
type DictionaryMethod = (dictionary: Dictionary, args: Arguments) => Value;

/**
 * The methods of Python's lists. Methods that change the list are included, although the sandbox of other programs
 * refuses them, because some templates need them. They change only values of the current rendering.
 */
export const listMethods: ReadonlyMap<string, ListMethod> = new Map<string, ListMethod>([
  ["count", (list, args) => list.filter((item) => equals(item, args.positional[0])).length],
  ["index", (list, args) => findIndex(list, args.positional[0])],
  ["copy", (list) => [...list]],
  ["append", (list, args) => change(list, () => list.push(args.positional[0]))],
  ["extend", (list, args) => change(list, () => list.push(...iterate(args.positional[0])))],
  ["insert", (list, args) => change(list, () => insert(list, args))],
  ["pop", (list, args) => pop(list, args.getInteger(0, "index", -1))],
]);

export const dictionaryMethods: ReadonlyMap<string, DictionaryMethod> = new Map<
  string,
  DictionaryMethod
>([
  ["get", (dictionary, args) => getOrDefault(dictionary, args)],
  ["keys", (dictionary) => DictionaryView.create("dict_keys", dictionary.keys())],
  ["values", (dictionary) => DictionaryView.create("dict_values", dictionary.values())],
  ["items", (dictionary) => DictionaryView.create("dict_items", listItems(dictionary))],
  ["copy", (dictionary) => new Map(dictionary)],
  ["pop", (dictionary, args) => remove(dictionary, args)],
  ["setdefault", (dictionary, args) => setDefault(dictionary, args)],
  ["update", (dictionary, args) => update(dictionary, args)],
]);

/** Returns the dictionary's keys and values as tuples. */
export function listItems(dictionary: Dictionary): List {
  return [...dictionary].map(([key, value]) => Tuple.create(key, value));
}

function findIndex(list: List, wanted: Value): number {
  const index = list.findIndex((item) => equals(item, wanted));
  if (index === -1) throw new RangeError("the list does not contain the value");
  return index;
}

function change(list: List, run: () => unknown): null {
  assertChangeable(list);
  run();
  return null;
}

function assertChangeable(list: List): void {
  if (list instanceof Tuple) throw new TypeError("a tuple cannot be changed");
}

function insert(list: List, { positional: [index, value] }: Arguments): void {
  if (typeof index !== "number") throw new TypeError("the index of insert() must be an integer");
  list.splice(index, 0, value);
}

function pop(list: List, index: number): Value {
  assertChangeable(list);
  const at = index < 0 ? index + list.length : index;
  if (at < 0 || at >= list.length)
    throw new RangeError("the index of pop() is beyond the end of the list");
  return list.splice(at, 1)[0];
}

function getOrDefault(dictionary: Dictionary, { positional }: Arguments): Value {
  const [key, fallback] = positional;
  if (dictionary.has(key)) return dictionary.get(key);
  return positional.length > 1 ? fallback : null;
}

function remove(dictionary: Dictionary, args: Arguments): Value {
  const [key, fallback] = args.positional;
  if (!dictionary.has(key)) {
    if (args.positional.length > 1) return fallback;
    throw new RangeError("the dictionary has no key that equals the argument of pop()");
  }
  const value = dictionary.get(key);
  dictionary.delete(key);
  return value;
}

function setDefault(dictionary: Dictionary, args: Arguments): Value {
  const [key] = args.positional;
  if (!dictionary.has(key)) dictionary.set(key, getOrDefault(dictionary, args));
  return dictionary.get(key);
}

function update(dictionary: Dictionary, { positional: [other], named }: Arguments): null {
  if (other instanceof Map) for (const [key, value] of other) dictionary.set(key, value);
  for (const [key, value] of named) dictionary.set(key, value);
  return null;
}
