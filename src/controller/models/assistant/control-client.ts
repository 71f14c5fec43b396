import { readInspected, readState } from "./control-answers.ts";
import type { ControlCalls } from "./control-calls.ts";
import type { AssistantControl, AssistantState, Door, InspectedModel, LoadModel } from "./port.ts";

/**
 * In milliseconds. What is asked of memory is answered at once; a file's head is read from slow disks in
 * seconds; a large model is loaded from them in minutes; an unload gives what is under way ten seconds.
 */
const LIMIT_MS = {
  state: 2_000,
  inspect: 30_000,
  load: 10 * 60_000,
  unload: 30_000,
  doors: 10_000,
} as const;

/** The assistant's system instance over its control socket. */
export class ControlClient implements AssistantControl {
  readonly #calls: ControlCalls;

  constructor(options: { readonly calls: ControlCalls }) {
    this.#calls = options.calls;
  }

  async state(signal: AbortSignal): Promise<AssistantState> {
    const call = { method: "GET", path: "/state", late: "assistant_unreachable" } as const;
    return readState(await this.#calls.call({ ...call, limitMs: LIMIT_MS.state }, signal));
  }

  async inspect(
    file: Parameters<AssistantControl["inspect"]>[0],
    signal: AbortSignal,
  ): Promise<InspectedModel> {
    const body = {
      id: file.id,
      path: file.path,
      context_tokens: file.contextTokens,
      sequences: file.sequences,
    };
    const call = { method: "POST", path: "/models/inspect", body } as const;
    return readInspected(await this.#calls.call({ ...call, limitMs: LIMIT_MS.inspect }, signal));
  }

  async load(model: LoadModel, signal: AbortSignal): Promise<void> {
    const body = {
      id: model.id,
      path: model.path,
      aliases: model.aliases,
      context_tokens: model.contextTokens,
      sequences: model.sequences,
      memory_bytes_max: model.memoryBytesMax,
      gpu: model.gpu,
      pinned: true,
    };
    const call = { method: "POST", path: "/models/load", body } as const;
    await this.#calls.call({ ...call, limitMs: LIMIT_MS.load }, signal);
  }

  async unload(id: string, signal: AbortSignal): Promise<void> {
    const call = { method: "POST", path: "/models/unload", body: { id } } as const;
    await this.#calls.call({ ...call, limitMs: LIMIT_MS.unload }, signal);
  }

  async openDoors(doors: readonly Door[], signal: AbortSignal): Promise<void> {
    const call = { method: "PUT", path: "/doors", body: { doors } } as const;
    await this.#calls.call({ ...call, limitMs: LIMIT_MS.doors }, signal);
  }
}
