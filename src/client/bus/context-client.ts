import type { BusVariant, SessionBus } from "../../dbus/port.ts";
import { BusInterface } from "./bus-interface.ts";
import { unexpectedAnswer } from "./json-fields.ts";

export interface SearchRequest {
  readonly query: string;
  /** Number of hits; undefined means the companion's default, 3. */
  readonly limit: number | undefined;
  readonly isHybrid: boolean;
  /** The scopes whose sources are searched; undefined means all sources that the caller may see. */
  readonly scopes: readonly string[] | undefined;
}

const ANSWER_MS_MAX = 30_000;

/**
 * A client of the interface Context1. Its methods reject with BerthErrors (see `toBerthError`) and return unvalidated
 * JSON, which `context-wire.ts` parses.
 */
export class ContextClient {
  readonly #context: BusInterface;

  constructor(bus: SessionBus) {
    this.#context = new BusInterface(bus, "dev.assistant.Context1");
  }

  search(request: SearchRequest, signal: AbortSignal): Promise<unknown> {
    const { query, limit, isHybrid, scopes } = request;
    const options = new Map<string, BusVariant>();
    if (limit !== undefined) options.set("limit", { signature: "u", value: limit });
    if (isHybrid) options.set("hybrid", { signature: "b", value: true });
    if (scopes !== undefined) options.set("scopes", { signature: "as", value: [...scopes] });
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    return this.#context.callJson("Search", "sa{sv}", [query, options], limits);
  }

  indexState(signal: AbortSignal): Promise<unknown> {
    return this.#context.callJson("IndexState", "", [], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /** Returns the value of a key. Rejects with `not_found` if the app has no such key. */
  async memoryGet(app: string, key: string, signal: AbortSignal): Promise<string> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    const [value] = await this.#context.call("MemoryGet", "ss", [app, key], limits);
    if (typeof value !== "string") throw unexpectedAnswer(undefined);
    return value;
  }

  async memorySet(app: string, key: string, value: string, signal: AbortSignal): Promise<void> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    await this.#context.call("MemorySet", "sss", [app, key, value], limits);
  }

  memoryList(app: string, signal: AbortSignal): Promise<unknown> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    return this.#context.callJson("MemoryList", "s", [app], limits);
  }

  memoryApps(signal: AbortSignal): Promise<unknown> {
    return this.#context.callJson("MemoryApps", "", [], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  async memoryWipe(app: string, signal: AbortSignal): Promise<void> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    await this.#context.call("MemoryWipe", "s", [app], limits);
  }
}
