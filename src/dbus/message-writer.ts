import { isDictionary, isList, isObjectPath, isVariant } from "./bus-values.ts";
import type { OutgoingMessage } from "./outgoing-message.ts";
import type { BusValue } from "./port.ts";
import { formatSignature, getChild, parseSignature, type TypeTree } from "./signature.ts";
import { LITTLE_ENDIAN } from "./value-reader.ts";

const PROTOCOL_VERSION = 1;
/** The positions of the lengths in a message, which are written last. */
const BODY_LENGTH_AT = 4;
const FIELDS_LENGTH_AT = 12;
const FIELDS_AT = 16;
/** The initial size of the buffer in bytes, enough for most messages. The buffer grows for longer ones. */
const FIRST_BYTES = 1_024;

/**
 * Returns the bytes of a message. `fds` are its descriptors, in the order in which they are sent. Throws TypeError if a
 * value does not fit the signature, because a bus disconnects the sender of a malformed message.
 */
export function writeMessage(
  message: OutgoingMessage,
  serial: number,
  fds: readonly number[],
): Buffer {
  const { type, flags = 0, signature, args } = message;
  const writer = new ValueWriter(fds);
  for (const byte of [LITTLE_ENDIAN, type, flags, PROTOCOL_VERSION]) writer.writeByte(byte);
  writer.writeUint32(0);
  writer.writeUint32(serial);
  writer.writeUint32(0);
  const fields = [
    [1, "o", message.path],
    [2, "s", message.interface],
    [3, "s", message.member],
    [4, "s", message.errorName],
    [5, "u", message.replySerial],
    [6, "s", message.destination],
    [8, "g", signature === "" ? undefined : signature],
    [9, "u", fds.length === 0 ? undefined : fds.length],
  ] as const;
  for (const [code, fieldSignature, value] of fields) {
    if (value === undefined) continue;
    writer.align(8);
    writer.writeByte(code);
    writer.writeVariant({ signature: fieldSignature, value });
  }
  writer.setUint32(FIELDS_LENGTH_AT, writer.length - FIELDS_AT);
  writer.align(8);
  const bodyAt = writer.length;
  writer.writeAll(signature, args);
  writer.setUint32(BODY_LENGTH_AT, writer.length - bodyAt);
  return writer.bytes();
}

/** The methods of Buffer that write a number. */
type NumberWriter =
  | "writeUInt8"
  | "writeInt16LE"
  | "writeUInt16LE"
  | "writeInt32LE"
  | "writeUInt32LE"
  | "writeDoubleLE";

/** Writes values into one buffer, which grows. Alignments count from its first byte. */
class ValueWriter {
  readonly #fds: readonly number[];
  #buffer = Buffer.alloc(FIRST_BYTES);
  length = 0;

  constructor(fds: readonly number[]) {
    this.#fds = fds;
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  writeAll(signature: string, values: readonly BusValue[]): void {
    const trees = parseSignature(signature);
    if (trees.length !== values.length)
      throw new TypeError(`there are ${values.length} values for the signature "${signature}"`);
    for (const [index, tree] of trees.entries()) this.write(tree, values[index]);
  }

  write(tree: TypeTree, value: BusValue | undefined): void {
    switch (tree.type) {
      case "y":
        return this.writeByte(toInteger(tree, value, 0, 0xff));
      case "b":
        if (typeof value !== "boolean") throw unfitError(tree);
        return this.writeUint32(value ? 1 : 0);
      case "n":
        return this.#writeNumber("writeInt16LE", toInteger(tree, value, -0x8000, 0x7fff), 2);
      case "q":
        return this.#writeNumber("writeUInt16LE", toInteger(tree, value, 0, 0xffff), 2);
      case "i":
        return this.#writeNumber(
          "writeInt32LE",
          toInteger(tree, value, -(2 ** 31), 2 ** 31 - 1),
          4,
        );
      case "u":
        return this.writeUint32(toInteger(tree, value, 0, 2 ** 32 - 1));
      case "x":
        return this.#writeBigInt(
          BigInt.asUintN(64, toBigInt(tree, value, -(2n ** 63n), 2n ** 63n)),
        );
      case "t":
        return this.#writeBigInt(toBigInt(tree, value, 0n, 2n ** 64n));
      case "d":
        if (typeof value !== "number" || !Number.isFinite(value)) throw unfitError(tree);
        return this.#writeNumber("writeDoubleLE", value, 8);
      case "s":
        return this.#writeText(toText(tree, value));
      case "o":
        if (value === undefined || !isObjectPath(value)) throw unfitError(tree);
        return this.#writeText(value);
      case "g":
        return this.#writeSignature(toText(tree, value));
      case "h":
        return this.writeUint32(this.#findDescriptor(tree, value));
      case "v":
        return this.writeVariant(value);
      case "a":
        return this.#writeArray(tree, value);
      default:
        return this.#writeStruct(tree, value);
    }
  }

  writeByte(byte: number): void {
    this.#writeNumber("writeUInt8", byte, 1);
  }

  writeUint32(value: number): void {
    this.#writeNumber("writeUInt32LE", value, 4);
  }

  setUint32(at: number, value: number): void {
    this.#buffer.writeUInt32LE(value, at);
  }

  writeVariant(value: BusValue | undefined): void {
    if (value === undefined || !isVariant(value))
      throw new TypeError("a variant needs its signature");
    const [tree, more] = parseSignature(value.signature);
    if (!tree || more) throw new TypeError("a variant holds one value");
    this.#writeSignature(value.signature);
    this.write(tree, value.value);
  }

  align(bytes: number): void {
    this.#ensure(Math.ceil(this.length / bytes) * bytes);
  }

  #writeNumber(method: NumberWriter, value: number, bytes: number): void {
    // The position is computed first, because the buffer may be replaced by a larger one.
    const at = this.#extend(bytes);
    this.#buffer[method](value, at);
  }

  #writeBigInt(value: bigint): void {
    const at = this.#extend(8);
    this.#buffer.writeBigUInt64LE(value, at);
  }

  /** Returns the position of a new value of this size, which is also its alignment. May replace the buffer. */
  #extend(bytes: number): number {
    this.align(bytes);
    const at = this.length;
    this.#ensure(at + bytes);
    return at;
  }

  /** Makes the buffer at least `length` bytes long. New bytes are zero. */
  #ensure(length: number): void {
    if (length > this.#buffer.length) {
      const larger = Buffer.alloc(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(larger);
      this.#buffer = larger;
    }
    this.length = length;
  }

  /** Writes a text, with its length before it and a zero byte behind it. */
  #writeText(text: string): void {
    const bytes = Buffer.byteLength(text);
    this.writeUint32(bytes);
    this.#writeBytes(text, bytes);
  }

  #writeSignature(signature: string): void {
    parseSignature(signature);
    this.writeByte(signature.length);
    this.#writeBytes(signature, signature.length);
  }

  #writeBytes(text: string, bytes: number): void {
    const at = this.length;
    this.#ensure(at + bytes + 1);
    this.#buffer.write(text, at, bytes, "utf8");
  }

  #findDescriptor(tree: TypeTree, value: BusValue | undefined): number {
    const index = typeof value === "number" ? this.#fds.indexOf(value) : -1;
    if (index === -1) throw unfitError(tree);
    return index;
  }

  #writeArray(tree: TypeTree, value: BusValue | undefined): void {
    const element = getChild(tree, 0);
    this.writeUint32(0);
    const lengthAt = this.length - 4;
    if ("xtd({".includes(element.type)) this.align(8);
    const from = this.length;
    if (element.type === "{") this.#writeEntries(element, value);
    else if (value !== undefined && isList(value))
      for (const item of value) this.write(element, item);
    else throw new TypeError(`${formatSignature(tree)} needs a list`);
    this.setUint32(lengthAt, this.length - from);
  }

  #writeEntries(entry: TypeTree, value: BusValue | undefined): void {
    if (!isDictionary(value)) throw new TypeError("a dictionary must be a Map");
    const [keyTree, valueTree] = [getChild(entry, 0), getChild(entry, 1)];
    if (!"sog".includes(keyTree.type))
      throw new TypeError(`a dictionary cannot have keys of the type ${keyTree.type}`);
    for (const [key, item] of value) {
      this.align(8);
      this.write(keyTree, key);
      this.write(valueTree, valueTree.type === "v" ? item : item.value);
    }
  }

  #writeStruct(tree: TypeTree, value: BusValue | undefined): void {
    if (value === undefined || !isList(value) || value.length !== tree.child.length)
      throw unfitError(tree);
    this.align(8);
    for (const [index, child] of tree.child.entries()) this.write(child, value[index]);
  }
}

function toInteger(tree: TypeTree, value: BusValue | undefined, min: number, max: number): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max)
    throw unfitError(tree);
  return value;
}

/** `end` is the first number that is too large. */
function toBigInt(tree: TypeTree, value: BusValue | undefined, min: bigint, end: bigint): bigint {
  if (typeof value !== "bigint" || value < min || value >= end) throw unfitError(tree);
  return value;
}

function toText(tree: TypeTree, value: BusValue | undefined): string {
  if (typeof value !== "string" || value.includes("\0")) throw unfitError(tree);
  return value;
}

function unfitError(tree: TypeTree): TypeError {
  return new TypeError(`the value does not fit ${formatSignature(tree)}`);
}
