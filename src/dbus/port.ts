/** A client connection to the session bus, used by the command line and by the daemon's own calls. */
export interface SessionBus extends AsyncDisposable {
  /** The unique connection name, such as `:1.42`. */
  readonly uniqueName: string;

  /**
   * Calls a method and resolves to its out arguments. Rejects with BusCallError for an error reply or a lost
   * connection, with the signal's reason when it aborts, and with BusCallError `org.freedesktop.DBus.Error.NoReply`
   * after `timeoutMs`. Descriptors in the answer belong to the caller.
   */
  call(
    method: BusMethodCall,
    options: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<readonly BusValue[]>;

  /** Subscribes to a signal. Resolves when the bus has installed the match rule, so no later signal is missed. */
  onSignal(rule: BusSignalRule, listener: (signal: ReceivedSignal) => void): Promise<() => void>;

  /** Resolves when the connection is lost or was closed. */
  readonly closed: Promise<void>;
}

export interface BusMethodCall {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  /**
   * Signature of the arguments; "" for none. Descriptors among them belong to the bus connection, which closes
   * them.
   */
  readonly signature: string;
  readonly args: readonly BusValue[];
}

export interface BusSignalRule {
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  /** Only signals of this sender match; for a well-known name, signals of the connection that owns the name. */
  readonly sender: string;
}

export interface ReceivedSignal {
  readonly sender: string;
  readonly args: readonly BusValue[];
}

/**
 * D-Bus values in JavaScript: `t` and `x` are bigint, other numbers are number, `h` is the number of a file descriptor,
 * arrays and structs are arrays, `a{sv}` is a Map of variants, and a single `v` is a variant. Any other dictionary is a
 * Map of variants, too, whose values all have the same signature.
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

/** An error reply to a call, or the failure of the connection. */
export class BusCallError extends Error {
  /** The D-Bus error name, such as `dev.assistant.Error.NotFound`. */
  readonly busName: string;

  constructor(busName: string, text: string) {
    super(text);
    this.name = "BusCallError";
    this.busName = busName;
  }
}
