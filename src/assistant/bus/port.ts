import type { BusValue } from "../../dbus/port.ts";
import type { Caller } from "../caller.ts";

/**
 * The session bus as the rooms' adapters see it: objects with methods, properties and signals. What an
 * interface has, and with which signatures, stands in `dbus/interfaces/`; arguments have been checked
 * against that, and the caller has been identified, before a method here is called.
 */
export interface Bus {
  /**
   * Puts an object on the bus. Throws a TypeError where a method or property of the interface's file has
   * no implementation, or one has no place in the file. The function that it returns takes it off.
   */
  serve(path: string, served: ServedInterface): () => void;

  /**
   * Sends a signal, to one connection or (undefined) to whoever listens. Arguments are checked against the
   * interface's file. Never throws, also not for a connection that is gone.
   */
  emit(signal: BusSignal, to: string | undefined): void;

  /** Calls back once, when this connection has left the bus; soon where it has left already. */
  onDisconnect(connection: string, callback: () => void): () => void;
}

export interface ServedInterface {
  /** As in `dbus/interfaces/`. */
  readonly name: string;
  readonly methods: { readonly [name: string]: BusMethod };
  /** Read anew each time. `Version` included. */
  readonly properties: { readonly [name: string]: () => BusValue };
}

/**
 * Resolves to the out arguments, in their order. An AssistantError goes to the caller as the error table
 * has it; anything else as `dev.assistant.Error.Failed` without its text. A descriptor (`h`) that is returned belongs to
 * the bus from then on, which closes it when it has been sent, or could not be; one among the arguments
 * belongs to the method.
 */
export type BusMethod = (call: BusCall) => Promise<readonly BusValue[]> | readonly BusValue[];

export interface BusCall {
  readonly caller: Caller;
  readonly args: readonly BusValue[];
  /** Aborts when the caller's connection goes away, and when the daemon ends. */
  readonly signal: AbortSignal;
  /**
   * Calls back once, when the answer has been handed to the bus or is not to come: what is emitted from then on
   * reaches the caller after it.
   */
  readonly whenAnswered: (callback: () => void) => void;
}

export interface BusSignal {
  readonly path: string;
  readonly interface: string;
  readonly name: string;
  readonly args: readonly BusValue[];
}
