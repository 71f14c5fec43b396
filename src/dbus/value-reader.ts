import { isVariant } from "./bus-values.ts";
import type { BusDictionary, BusValue, BusVariant } from "./port.ts";
import { formatSignature, getChild, parseSignature, type TypeTree } from "./signature.ts";

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

/** The byte that marks a message in little-endian byte order. */
export const LITTLE_ENDIAN = 0x6c;
/** At most this number of characters of a key is in the message of DuplicateKeyError. */
const KEY_CHARS_SHOWN = 64;

export interface ReadOptions {
  /** The byte that marks the byte order of the message. */
  readonly endian: number;
  readonly fds: readonly number[];
  readonly valuesMax: number;
}

/**
 * Reads the arguments in the body of a message. Throws TooManyValuesError if there are more than `valuesMax` values,
 * NoSuchDescriptorError if a value refers to a descriptor that is not in `fds`, and DuplicateKeyError. A bus validates
 * bodies, so other errors cannot come from a message that a bus forwarded.
 */
export function readValues(
  body: Buffer,
  options: ReadOptions & { readonly signature: string },
): BusValue[] {
  if (options.signature === "") return [];
  const reader = new ValueReader(body, options);
  return parseSignature(options.signature).map((tree) => reader.read(tree));
}

/** Reads values from bytes whose first one has an alignment of eight. Throws like `readValues`. */
export class ValueReader {
  readonly #bytes: Buffer;
  readonly #view: DataView;
  readonly #isLittle: boolean;
  readonly #fds: readonly number[];
  #valuesLeft: number;
  #at = 0;

  constructor(bytes: Buffer, { endian, fds, valuesMax }: ReadOptions) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#isLittle = endian === LITTLE_ENDIAN;
    this.#fds = fds;
    this.#valuesLeft = valuesMax;
  }

  /** The position of the next byte. */
  get position(): number {
    return this.#at;
  }

  align(bytes: number): void {
    this.#at = Math.ceil(this.#at / bytes) * bytes;
  }

  read(tree: TypeTree): BusValue {
    this.#countValue();
    switch (tree.type) {
      case "y":
        return this.readByte();
      case "b":
        return this.#readUint32() !== 0;
      case "n":
        return this.#view.getInt16(this.#advance(2), this.#isLittle);
      case "q":
        return this.#view.getUint16(this.#advance(2), this.#isLittle);
      case "i":
        return this.#view.getInt32(this.#advance(4), this.#isLittle);
      case "u":
        return this.#readUint32();
      case "x":
        return this.#view.getBigInt64(this.#advance(8), this.#isLittle);
      case "t":
        return this.#view.getBigUint64(this.#advance(8), this.#isLittle);
      case "d":
        return this.#view.getFloat64(this.#advance(8), this.#isLittle);
      case "s":
      case "o":
        return this.#readText(this.#readUint32());
      case "g":
        return this.#readText(this.readByte());
      case "h":
        return this.#readDescriptor();
      case "v":
        return this.readVariant();
      case "a":
        return this.#readArray(getChild(tree, 0));
      default:
        this.align(8);
        return tree.child.map((child) => this.read(child));
    }
  }

  readByte(): number {
    return this.#view.getUint8(this.#advance(1));
  }

  /** Returns the position of a value of this size, and moves behind it. */
  #advance(bytes: number): number {
    this.align(bytes);
    this.#at += bytes;
    return this.#at - bytes;
  }

  #readUint32(): number {
    return this.#view.getUint32(this.#advance(4), this.#isLittle);
  }

  /** Reads a text of this number of bytes, which a zero byte follows. */
  #readText(bytes: number): string {
    const from = this.#at;
    if (from + bytes >= this.#bytes.length)
      throw new RangeError("a text is longer than its message");
    this.#at += bytes + 1;
    return this.#bytes.toString("utf8", from, from + bytes);
  }

  #readDescriptor(): number {
    const fd = this.#fds[this.#readUint32()];
    if (fd === undefined)
      throw new NoSuchDescriptorError("the body refers to a descriptor that was not sent with it");
    return fd;
  }

  readVariant(): BusVariant {
    const signature = this.#readText(this.readByte());
    const [tree, more] = parseSignature(signature);
    if (!tree || more) throw new TypeError("a variant holds one value");
    return { signature, value: this.read(tree) };
  }

  #readArray(element: TypeTree): BusValue {
    const bytes = this.#readUint32();
    // The padding before the first element is not a part of the length, and an empty array has it, too.
    if ("xtd({".includes(element.type)) this.align(8);
    const end = this.#at + bytes;
    if (element.type === "{") return this.#readDictionary(element, end);
    const found: BusValue[] = [];
    while (this.#at < end) found.push(this.read(element));
    return found;
  }

  #readDictionary(entry: TypeTree, end: number): BusDictionary {
    const [keyTree, valueTree] = [getChild(entry, 0), getChild(entry, 1)];
    const signature = valueTree.type === "v" ? "" : formatSignature(valueTree);
    const found = new Map<string, BusVariant>();
    while (this.#at < end) {
      this.#countValue();
      this.align(8);
      // oxlint-disable-next-line typescript/no-base-to-string -- the key of a dictionary has a basic type
      const key = String(this.read(keyTree));
      if (found.has(key))
        throw new DuplicateKeyError(
          `the key ${JSON.stringify(key.slice(0, KEY_CHARS_SHOWN))} is in a dictionary twice`,
        );
      const value = this.read(valueTree);
      found.set(key, isVariant(value) ? value : { signature, value });
    }
    return found;
  }

  #countValue(): void {
    this.#valuesLeft -= 1;
    if (this.#valuesLeft < 0) throw new TooManyValuesError("too many values");
  }
}
