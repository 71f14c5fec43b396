import type { BusSignalRule, BusValue, SessionBus } from "../../dbus/port.ts";
import { toBerthError } from "./bus-failure.ts";
import { parseAnswer } from "./json-fields.ts";

const BUS = "org.freedesktop.DBus";
const ownerChanges: BusSignalRule = {
  sender: BUS,
  path: `/${BUS.replaceAll(".", "/")}`,
  interface: BUS,
  member: "NameOwnerChanged",
};

/**
 * One interface of the companion. Its name, such as `dev.assistant.Agent1`, also determines its object path, and is
 * its bus name unless another one is given.
 */
export class BusInterface {
  readonly #bus: SessionBus;
  readonly #name: string;
  readonly #destination: string;

  constructor(bus: SessionBus, name: string, destination = name) {
    this.#bus = bus;
    this.#name = name;
    this.#destination = destination;
  }

  /** Rejects with a BerthError if the companion or the bus returns an error, or with the signal's reason. */
  async call(
    member: string,
    signature: string,
    args: readonly BusValue[],
    limits: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<readonly BusValue[]> {
    try {
      return await this.#bus.call({ ...this.#target(), member, signature, args }, limits);
    } catch (error) {
      throw toBerthError(error);
    }
  }

  /** Calls a method whose only result is JSON text, and returns the parsed JSON. Rejects like `call`. */
  async callJson(
    member: string,
    signature: string,
    args: readonly BusValue[],
    limits: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<unknown> {
    const [text] = await this.call(member, signature, args, limits);
    return parseAnswer(text);
  }

  async onSignal(
    member: string,
    listener: (args: readonly BusValue[]) => void,
  ): Promise<() => void> {
    const { destination, path, interface: name } = this.#target();
    return this.#subscribe({ path, interface: name, member, sender: destination }, listener);
  }

  /** Calls the listener when the companion has exited or the connection has ended. */
  async onDisconnected(listener: () => void): Promise<() => void> {
    let isOver = false;
    void this.#bus.closed.then(() => (isOver ? undefined : listener()));
    const stop = await this.#subscribe(ownerChanges, ([name, , owner]) => {
      if (name === this.#destination && owner === "") listener();
    });
    return () => {
      isOver = true;
      stop();
    };
  }

  async #subscribe(
    rule: BusSignalRule,
    listener: (args: readonly BusValue[]) => void,
  ): Promise<() => void> {
    try {
      return await this.#bus.onSignal(rule, ({ args }) => listener(args));
    } catch (error) {
      throw toBerthError(error);
    }
  }

  #target(): { destination: string; path: string; interface: string } {
    return {
      destination: this.#destination,
      path: `/${this.#name.replaceAll(".", "/")}`,
      interface: this.#name,
    };
  }
}
