import type { BusValue, SessionBus } from "../../base/session-bus/port.ts";
import { busFailure } from "./failure.ts";
import { parsedAnswer } from "./json.ts";

/** One interface of the companion: `dev.assistant.Agent1` is the name, the interface, and in the path. */
export class BusInterface {
  readonly #bus: SessionBus;
  readonly #name: string;

  constructor(bus: SessionBus, name: string) {
    this.#bus = bus;
    this.#name = name;
  }

  /** Rejects with a BerthError where the companion, or the bus, refuses; with the signal's reason. */
  async call(
    member: string,
    signature: string,
    args: readonly BusValue[],
    limits: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<readonly BusValue[]> {
    try {
      return await this.#bus.call({ ...this.#target(), member, signature, args }, limits);
    } catch (error) {
      throw busFailure(error);
    }
  }

  /** As `call`, for a method whose one answer is JSON. */
  async callJson(
    member: string,
    signature: string,
    args: readonly BusValue[],
    limits: { readonly signal: AbortSignal; readonly timeoutMs: number },
  ): Promise<unknown> {
    const [text] = await this.call(member, signature, args, limits);
    return parsedAnswer(text);
  }

  async onSignal(
    member: string,
    listener: (args: readonly BusValue[]) => void,
  ): Promise<() => void> {
    const { destination, path, interface: name } = this.#target();
    try {
      return await this.#bus.onSignal(
        { path, interface: name, member, sender: destination },
        ({ args }) => listener(args),
      );
    } catch (error) {
      throw busFailure(error);
    }
  }

  #target(): { destination: string; path: string; interface: string } {
    return {
      destination: this.#name,
      path: `/${this.#name.replaceAll(".", "/")}`,
      interface: this.#name,
    };
  }
}
