import type { BusValue } from "../../dbus/port.ts";
import type { Caller } from "../caller.ts";

/**
 * The session bus for the adapters of the modules: objects with methods, properties and signals. The files in
 * `dbus/interfaces/` define the interfaces with their signatures; before a method is called here, its arguments
 * were checked against them and the caller was identified.
 */
export interface Bus {
  /**
   * Exports an object. Throws TypeError if a method or property of the interface's file is not implemented, or an
   * implemented one is not in the file. The returned function removes the object.
   */
  serve(path: string, served: ServedInterface): () => void;

  /**
   * Sends a signal to one connection or, if `to` is undefined, to all subscribers. Arguments are checked against
   * the interface's file. Never throws, even if the connection is gone.
   */
  emit(signal: BusSignal, to: string | undefined): void;

  /** Calls back once, when this connection has left the bus; soon if it has already left. */
  onDisconnect(connection: string, callback: () => void): () => void;
}

export interface ServedInterface {
  /** A name from `dbus/interfaces/`. */
  readonly name: string;
  readonly methods: { readonly [name: string]: BusMethod };
  /** Read again at each access. `Version` must be included. */
  readonly properties: { readonly [name: string]: () => BusValue };
}

/**
 * Resolves to the out arguments in their order. An AssistantError is sent to the caller under the name in the error
 * table; any other error becomes `dev.assistant.Error.Failed` without its text. A file descriptor (`h`) among the
 * results belongs to the bus, which closes it after sending it or if it cannot be sent; one among the arguments
 * belongs to the method.
 */
export type BusMethod = (call: BusCall) => Promise<readonly BusValue[]> | readonly BusValue[];

export interface BusCall {
  readonly caller: Caller;
  readonly args: readonly BusValue[];
  /** Aborts when the caller's connection closes or the daemon shuts down. */
  readonly signal: AbortSignal;
  /**
   * Calls back once, after the answer was handed to the bus or will not be sent. Signals that are emitted from then
   * on reach the caller after the answer.
   */
  readonly whenAnswered: (callback: () => void) => void;
}

export interface BusSignal {
  readonly path: string;
  readonly interface: string;
  readonly name: string;
  readonly args: readonly BusValue[];
}
