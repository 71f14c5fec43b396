import type { BusValue } from "../../dbus/port.ts";
import type { Caller } from "../caller.ts";

/**
 * The session bus as a port for other modules, which serve objects with methods, properties and signals on it. The
 * files in `dbus/interfaces/` define the interfaces with their signatures. Before the bus calls a method, it checks the
 * arguments against these files and identifies the caller.
 */
export interface Bus {
  /**
   * Exports an object and returns a function that removes it. Throws TypeError if the object lacks a method or
   * property of the interface's file, or has one that is not in the file.
   */
  serve(path: string, served: ServedInterface): () => void;

  /**
   * Sends a signal to one connection or, if `to` is undefined, to all subscribers. Never throws: a signal
   * whose arguments do not fit the introspection XML is logged and not sent, and one to a lost connection is dropped.
   */
  emit(signal: BusSignal, to: string | undefined): void;

  /** Calls back once when the connection has left the bus, or soon if it has already left. */
  onDisconnect(connection: string, callback: () => void): () => void;
}

export interface ServedInterface {
  /** The name of an interface that a file in `dbus/interfaces/` describes. */
  readonly name: string;
  readonly methods: { readonly [name: string]: BusMethod };
  /** Functions that return the properties' values; called at each access. `Version` must be included. */
  readonly properties: { readonly [name: string]: () => BusValue };
}

/**
 * Resolves to the out arguments in their order. An AssistantError is sent to the caller under the name in the error
 * table; any other error becomes `dev.assistant.Error.Failed` without its text. A file descriptor (`h`) among the
 * results belongs to the bus, which closes it after sending it or if it cannot be sent. A descriptor among the
 * arguments belongs to the method, which must close it.
 */
export type BusMethod = (call: BusCall) => Promise<readonly BusValue[]> | readonly BusValue[];

export interface BusCall {
  readonly caller: Caller;
  readonly args: readonly BusValue[];
  /** Aborts when the caller's connection closes or the daemon shuts down. */
  readonly signal: AbortSignal;
  /**
   * Calls back once, when the answer was handed to the bus or will never be sent. Signals that are emitted after this
   * callback reach the caller after the answer.
   */
  readonly whenAnswered: (callback: () => void) => void;
}

export interface BusSignal {
  readonly path: string;
  readonly interface: string;
  readonly name: string;
  readonly args: readonly BusValue[];
}
