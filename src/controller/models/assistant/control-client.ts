import { readInspectedModel, readState } from "./control-responses.ts";
import type { ControlTransport } from "./control-transport.ts";
import type {
  AssistantControl,
  AssistantState,
  ContainerListenerSpec,
  InspectedModel,
  LoadModelRequest,
} from "./port.ts";

/**
 * The time limits of requests to the assistant, in milliseconds. `state` is answered from memory. `inspect` reads the
 * head of a file, possibly from a slow disk. `load` may take minutes for a large model. `unload` gives running calls
 * ten seconds to end.
 */
const LIMIT_MS = {
  state: 2_000,
  inspect: 30_000,
  load: 10 * 60_000,
  unload: 30_000,
  listeners: 10_000,
} as const;

/** The client of the assistant's system instance on its control socket. */
export class ControlClient implements AssistantControl {
  readonly #transport: ControlTransport;

  constructor(options: { readonly calls: ControlTransport }) {
    this.#transport = options.calls;
  }

  async state(signal: AbortSignal): Promise<AssistantState> {
    const call = { method: "GET", path: "/state", timeoutCode: "assistant_unreachable" } as const;
    return readState(await this.#transport.call({ ...call, limitMs: LIMIT_MS.state }, signal));
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
      chat_template: file.chatTemplate,
      deterministic: file.deterministic,
    };
    const call = { method: "POST", path: "/models/inspect", body } as const;
    return readInspectedModel(
      await this.#transport.call({ ...call, limitMs: LIMIT_MS.inspect }, signal),
    );
  }

  async load(model: LoadModelRequest, signal: AbortSignal): Promise<void> {
    const body = {
      id: model.id,
      path: model.path,
      aliases: model.aliases,
      context_tokens: model.contextTokens,
      sequences: model.sequences,
      chat_template: model.chatTemplate,
      deterministic: model.deterministic,
      memory_bytes_max: model.memoryBytesMax,
      gpu: model.gpu,
      pinned: true,
    };
    const call = { method: "POST", path: "/models/load", body } as const;
    await this.#transport.call({ ...call, limitMs: LIMIT_MS.load }, signal);
  }

  async unload(id: string, signal: AbortSignal): Promise<void> {
    const call = { method: "POST", path: "/models/unload", body: { id } } as const;
    await this.#transport.call({ ...call, limitMs: LIMIT_MS.unload }, signal);
  }

  async setContainerListeners(
    listeners: readonly ContainerListenerSpec[],
    signal: AbortSignal,
  ): Promise<void> {
    const call = { method: "PUT", path: "/listeners", body: { listeners } } as const;
    await this.#transport.call({ ...call, limitMs: LIMIT_MS.listeners }, signal);
  }
}
