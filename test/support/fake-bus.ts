import type { Bus, BusSignal, ServedInterface } from "../../src/assistant/bus/port.ts";
import type { CallerApp } from "../../src/assistant/caller.ts";
import type { BusValue } from "../../src/dbus/port.ts";

/** A bus without a connection: tests call the served methods directly, and disconnect clients. */
export class FakeBus implements Bus {
  readonly served = new Map<string, ServedInterface>();
  readonly signals: (BusSignal & { readonly to: string | undefined })[] = [];
  /** The app of each connection, by the connection's name. A connection that is not listed belongs to no app. */
  readonly apps = new Map<string, CallerApp>();
  onSignal: (signal: BusSignal) => void = () => {};
  readonly #disconnectCallbacks = new Map<string, Set<() => void>>();
  readonly #connections = new Map<string, AbortController>();

  serve(path: string, served: ServedInterface): () => void {
    if (this.served.has(path)) throw new TypeError(`${path} is served already`);
    this.served.set(path, served);
    return () => this.served.delete(path);
  }

  emit(signal: BusSignal, to: string | undefined): void {
    this.signals.push({ ...signal, to });
    this.onSignal(signal);
  }

  onDisconnect(connection: string, callback: () => void): () => void {
    const callbacks = this.#disconnectCallbacks.get(connection) ?? new Set();
    this.#disconnectCallbacks.set(connection, callbacks);
    callbacks.add(callback);
    return () => callbacks.delete(callback);
  }

  async call(
    connection: string,
    path: string,
    method: string,
    ...args: readonly BusValue[]
  ): Promise<readonly BusValue[]> {
    const implementation = this.served.get(path)?.methods[method];
    if (!implementation) throw new Error(`nothing at ${path} answers ${method}`);
    const { signal } = this.#getConnection(connection);
    const onAnswered: (() => void)[] = [];
    try {
      return await implementation({
        caller: { connection, pid: 1, app: this.apps.get(connection) },
        args,
        signal,
        whenAnswered: (callback) => void onAnswered.push(callback),
      });
    } finally {
      for (const callback of onAnswered) callback();
    }
  }

  property(path: string, name: string): BusValue | undefined {
    return this.served.get(path)?.properties[name]?.();
  }

  /** Returns the number of callbacks that wait for the disconnection of the given connection. */
  countWatchers(connection: string): number {
    return this.#disconnectCallbacks.get(connection)?.size ?? 0;
  }

  disconnect(connection: string): void {
    this.#getConnection(connection).abort();
    this.#connections.delete(connection);
    for (const callback of this.#disconnectCallbacks.get(connection) ?? []) callback();
    this.#disconnectCallbacks.delete(connection);
  }

  #getConnection(connection: string): AbortController {
    const known = this.#connections.get(connection) ?? new AbortController();
    this.#connections.set(connection, known);
    return known;
  }
}
