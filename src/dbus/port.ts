/**
 * A connection to the session bus, as a client has it: the command line, and what the daemon itself asks of
 * the bus. Values are as in `BusValue`.
 */
export interface SessionBus extends AsyncDisposable {
  /** `:1.42`. */
  readonly uniqueName: string;

  /**
   * Calls a method and resolves to its out arguments. Rejects with BusCallError for an error reply and for a
   * connection that is lost, with the signal's reason when that aborts, and with a BusCallError
   * `org.freedesktop.DBus.Error.NoReply` after `timeoutMs`. Descriptors in the answer belong to the caller.
   */
  call(
    method: BusMethodCall,
    options: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<readonly BusValue[]>;

  /** Subscribes; resolves when the bus has taken the rule, so that nothing sent after that is missed. */
  onSignal(rule: BusSignalRule, listener: (signal: ReceivedSignal) => void): Promise<() => void>;

  /** Resolves when the connection is lost or was closed. */
  readonly closed: Promise<void>;
}

export interface BusMethodCall {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  /** Of the arguments; "" for none. Descriptors among them belong to the bus from then on, which closes them. */
  readonly signature: string;
  readonly args: readonly BusValue[];
}

export interface BusSignalRule {
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  /** A well-known name: its owner's signals only. */
  readonly sender: string;
}

export interface ReceivedSignal {
  readonly sender: string;
  readonly args: readonly BusValue[];
}

/**
 * What travels: `t` and `x` as bigint, other numbers as number, `h` as the number of a file descriptor,
 * arrays and structs as arrays, `a{sv}` as a Map of variants, a `v` that stands alone as a variant.
 * Other dictionaries are such Maps too, with the one signature that their values have.
 */
export type BusValue =
  | string
  | number
  | bigint
  | boolean
  | readonly BusValue[]
  | BusDictionary
  | BusVariant;

export type BusDictionary = ReadonlyMap<string, BusVariant>;

export interface BusVariant {
  readonly signature: string;
  readonly value: BusValue;
}

/** What came back in place of an answer. */
export class BusCallError extends Error {
  /** `dev.assistant.Error.NotFound`. */
  readonly busName: string;

  constructor(busName: string, text: string) {
    super(text);
    this.name = "BusCallError";
    this.busName = busName;
  }
}
