import { createRequire } from "node:module";

/**
 * This file uses only those functions of dbus-next that read and write values. dbus-next's MessageBus and connection
 * are not used: they assign all descriptors of messages that arrive together to the first message, throw from stream
 * events if a body is unreadable, and leave an unhandled rejection if the bus refuses the connection.
 */

/** A parsed signature: `a{sv}` is a tree of type a with a child {, whose children are s and v. */
export interface TypeTree {
  readonly type: string;
  readonly child: readonly TypeTree[];
}

/** A message in the form that dbus-next writes: variants as [signature, value], dictionaries as pairs. */
export interface WireMessage {
  readonly type: number;
  readonly flags?: number;
  readonly serial: number;
  readonly path?: string | undefined;
  readonly interface?: string | undefined;
  readonly member?: string | undefined;
  readonly errorName?: string | undefined;
  readonly replySerial?: number | undefined;
  readonly destination?: string | undefined;
  readonly signature?: string;
  readonly body?: readonly unknown[];
}

interface ValueReader {
  pos: number;
  align(power: number): void;
  /**
   * Reads one value of the given type. Its form is that of a value in WireMessage.body, except that a variant is
   * [[tree], [value]].
   */
  readTree(tree: TypeTree): unknown;
  readArray(element: TypeTree, byteLength: number): unknown[];
  readStruct(trees: readonly TypeTree[]): unknown[];
}

type ValueReaderClass = new (
  buffer: Buffer,
  startPos: number,
  endian: number,
  fds: readonly number[],
  options: { readonly ayBuffer: boolean },
) => ValueReader;

const require = createRequire(import.meta.url);

/** Returns the bytes of a message, and its descriptors in order. Throws if a value does not fit its type. */
export const { marshall: writeMessage } =
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- dbus-next's types do not declare this file
  require("dbus-next/lib/message.js") as {
    readonly marshall: (message: WireMessage) => [Buffer, number[]];
  };

/** Parses a D-Bus signature. Throws if the text is not a signature. */
export const { parseSignature } =
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- dbus-next's types do not declare this file
  require("dbus-next/lib/signature.js") as {
    readonly parseSignature: (signature: string) => TypeTree[];
  };

export const ValueReader =
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- dbus-next's types do not declare this file
  require("dbus-next/lib/dbus-buffer.js") as ValueReaderClass;

export function formatSignature(tree: TypeTree): string {
  const inner = tree.child.map((child) => formatSignature(child)).join("");
  if (tree.type === "(") return `(${inner})`;
  return tree.type === "{" ? `{${inner}}` : `${tree.type}${inner}`;
}
