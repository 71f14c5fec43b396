import type { BusDictionary, BusValue, BusVariant } from "./port.ts";
import { formatSignature, parseSignature, type TypeTree, ValueReader } from "./wire-format.ts";

/**
 * Thrown if the body of a message has more values than allowed, because reading them would block the event loop for too
 * long.
 */
export class TooManyValuesError extends Error {}
/**
 * Thrown if the body of a message refers to a descriptor that was not sent with it, or that its method does not accept.
 */
export class NoSuchDescriptorError extends Error {}
/**
 * Thrown if a dictionary in the body of a message has the same key twice. The D-Bus specification forbids that, but a
 * bus forwards it. Programs that read such a message in different ways would see different values.
 */
export class DuplicateKeyError extends Error {}

/**
 * Reads the arguments in the body of a message. Throws TooManyValuesError if there are more than `valuesMax` values,
 * NoSuchDescriptorError if a value refers to a descriptor that is not in `fds`, and DuplicateKeyError. A bus validates
 * bodies, so other errors cannot come from a message that a bus forwarded.
 */
export function readValues(
  body: Buffer,
  options: {
    readonly signature: string;
    readonly endian: number;
    readonly fds: readonly number[];
    readonly valuesMax: number;
  },
): BusValue[] {
  if (options.signature === "") return [];
  const trees = parseSignature(options.signature);
  const read = new BoundedReader(body, options).readStruct(trees);
  return trees.map((tree, index) => toBusValue(tree, read[index]));
}

/** A value reader with limits. Throws TooManyValuesError and NoSuchDescriptorError like `readValues`. */
export class BoundedReader extends ValueReader {
  readonly #fds: readonly number[];
  #left: number;

  constructor(
    body: Buffer,
    options: {
      readonly endian: number;
      readonly fds: readonly number[];
      readonly valuesMax: number;
    },
  ) {
    super(body, 0, options.endian, options.fds, { ayBuffer: false });
    this.#fds = options.fds;
    this.#left = options.valuesMax;
  }

  override readTree(tree: TypeTree): unknown {
    this.#left -= 1;
    if (this.#left < 0) throw new TooManyValuesError("too many values");
    if (tree.type !== "h") return super.readTree(tree);
    const index = super.readTree({ type: "u", child: [] });
    const fd = typeof index === "number" ? this.#fds[index] : undefined;
    if (fd === undefined)
      throw new NoSuchDescriptorError("the body refers to a descriptor that was not sent with it");
    return fd;
  }
}

/** At most this number of characters of a key is in the message of DuplicateKeyError. */
const KEY_CHARS_SHOWN = 64;

/** Converts a value as dbus-next has read it into a BusValue. */
function toBusValue(tree: TypeTree, read: unknown): BusValue {
  if (tree.type === "v") return toVariant(read);
  if (Array.isArray(read)) {
    const [first] = tree.child;
    if (tree.type === "a" && first?.type === "{") return toDictionary(first, read);
    return read.map((item, index) =>
      toBusValue(tree.type === "a" ? getOnlyChild(tree) : getChild(tree, index), item),
    );
  }
  switch (typeof read) {
    case "string":
    case "number":
    case "bigint":
    case "boolean":
      return read;
    default:
      throw new TypeError(
        `a value of the type ${formatSignature(tree)} was read as ${typeof read}`,
      );
  }
}

function toVariant(read: unknown): BusVariant {
  const [trees, values] = Array.isArray(read) ? read : [];
  const [tree] = Array.isArray(trees) ? trees : [];
  if (!isTree(tree) || !Array.isArray(values)) throw new TypeError("a variant without a type");
  return { signature: formatSignature(tree), value: toBusValue(tree, values[0]) };
}

function isTree(value: unknown): value is TypeTree {
  return typeof value === "object" && value !== null && "type" in value && "child" in value;
}

function toDictionary(entry: TypeTree, read: readonly unknown[]): BusDictionary {
  const [, valueTree] = entry.child;
  if (!valueTree) throw new TypeError("a dictionary without a type");
  const found = new Map<string, BusVariant>();
  for (const pair of read) {
    const [rawKey, raw] = Array.isArray(pair) ? pair : [];
    const key = String(rawKey);
    if (found.has(key))
      throw new DuplicateKeyError(
        `the key ${JSON.stringify(key.slice(0, KEY_CHARS_SHOWN))} is in a dictionary twice`,
      );
    const value = toBusValue(valueTree, raw);
    found.set(key, isVariant(value) ? value : { signature: formatSignature(valueTree), value });
  }
  return found;
}

/**
 * Converts values into the form that dbus-next writes. Throws TypeError if a value does not fit the signature even if
 * dbus-next would accept it, because a bus disconnects the sender of a malformed message.
 */
export function toWireValues(signature: string, values: readonly BusValue[]): unknown[] {
  const trees = parseSignature(signature);
  if (trees.length !== values.length) {
    throw new TypeError(`there are ${values.length} values for the signature "${signature}"`);
  }
  return trees.map((tree, index) => toWireValue(tree, values[index]));
}

function toWireValue(tree: TypeTree, value: BusValue | undefined): unknown {
  if (value === undefined) throw new TypeError(`there is no value for ${formatSignature(tree)}`);
  if (tree.type === "v") {
    if (!isVariant(value)) throw new TypeError("a variant needs its signature");
    const [inner, more] = parseSignature(value.signature);
    if (!inner || more) throw new TypeError("a variant holds one value");
    return [value.signature, toWireValue(inner, value.value)];
  }
  if (tree.type === "a" && getOnlyChild(tree).type === "{")
    return toWireDictionary(getOnlyChild(tree), value);
  if (tree.type === "a" || tree.type === "(") {
    if (!isList(value)) throw new TypeError(`${formatSignature(tree)} needs a list`);
    if (tree.type === "a") return value.map((item) => toWireValue(getOnlyChild(tree), item));
    if (value.length !== tree.child.length)
      throw new TypeError(`the value does not fit ${formatSignature(tree)}`);
    return value.map((item, index) => toWireValue(getChild(tree, index), item));
  }
  if (tree.type === "o" && !isObjectPath(value))
    throw new TypeError("the value is not an object path");
  return value;
}

function toWireDictionary(entry: TypeTree, value: BusValue): unknown[] {
  if (!isDictionary(value)) throw new TypeError("a dictionary must be a Map");
  const [keyTree, valueTree] = entry.child;
  if (!keyTree || !valueTree || !"sog".includes(keyTree.type)) {
    throw new TypeError(`a dictionary cannot have keys of the type ${keyTree?.type}`);
  }
  return [...value].map(([key, item]) => [
    key,
    toWireValue(valueTree, valueTree.type === "v" ? item : item.value),
  ]);
}

/** Returns every descriptor in the values, at any depth. */
export function findDescriptors(signature: string, values: readonly BusValue[]): number[] {
  const found = new Set<number>();
  const visit = (tree: TypeTree | undefined, value: BusValue | undefined): void => {
    if (tree === undefined || value === undefined) return;
    if (tree.type === "h" && typeof value === "number") found.add(value);
    else if (isList(value)) {
      value.forEach((item, index) => {
        visit(tree.type === "a" ? tree.child[0] : tree.child[index], item);
      });
    } else if (isDictionary(value)) {
      for (const item of value.values()) visit(parseSignature(item.signature)[0], item.value);
    } else if (isVariant(value)) visit(parseSignature(value.signature)[0], value.value);
  };
  if (!/[hv]/.test(signature)) return [];
  parseSignature(signature).forEach((tree, index) => {
    visit(tree, values[index]);
  });
  return [...found];
}

/** Returns the value if it is a string, otherwise "". */
export function toText(value: BusValue | undefined): string {
  return typeof value === "string" ? value : "";
}

export function isVariant(value: BusValue): value is BusVariant {
  return typeof value === "object" && "signature" in value && "value" in value;
}

export function isDictionary(value: BusValue | undefined): value is BusDictionary {
  return value instanceof Map;
}

export function isList(value: BusValue): value is readonly BusValue[] {
  return Array.isArray(value);
}

export function isObjectPath(value: BusValue): value is string {
  return typeof value === "string" && /^(\/|(\/[A-Za-z0-9_]+)+)$/.test(value);
}

function getOnlyChild(tree: TypeTree): TypeTree {
  return getChild(tree, 0);
}

function getChild(tree: TypeTree, index: number): TypeTree {
  const child = tree.child[index];
  if (!child)
    throw new TypeError(`there is no type for the value ${index} of ${formatSignature(tree)}`);
  return child;
}
