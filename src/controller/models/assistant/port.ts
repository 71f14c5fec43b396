import type { ModelFileFacts } from "../../../resources/model-status.ts";

/**
 * The assistant's system instance, as the Model reconciler drives it over the control socket. Every call has
 * a time limit of its own. Errors are BerthErrors: `assistant_unreachable` (it is off, starting, or gone),
 * `insufficient_memory` and `model_unusable` as the assistant says, `engine_error` for the rest.
 */
export interface AssistantControl {
  state(signal: AbortSignal): Promise<AssistantState>;
  /** What a GGUF file says of itself, and what it would take. Throws `model_unusable`. */
  inspect(
    file: {
      readonly id: string;
      readonly path: string;
      readonly contextTokens: number | undefined;
      readonly sequences: number | undefined;
    },
    signal: AbortSignal,
  ): Promise<InspectedModel>;
  /** Resolves when the model answers; one that is there with other settings is exchanged. */
  load(request: LoadModelRequest, signal: AbortSignal): Promise<void>;
  /** Resolves when it is gone; one that is not there is done. */
  unload(id: string, signal: AbortSignal): Promise<void>;
  /** Makes the endpoint reachable for containers, in place of what was open before. */
  setContainerListeners(
    listeners: readonly ContainerListenerSpec[],
    signal: AbortSignal,
  ): Promise<void>;
}

export interface LoadModelRequest {
  /** What clients call it. */
  readonly id: string;
  /** Further names for clients, such as its repository id. */
  readonly aliases: readonly string[];
  readonly path: string;
  readonly contextTokens: number | undefined;
  readonly sequences: number | undefined;
  /** What it may take at most; more is free for others then. Absent: what is free. */
  readonly memoryBytesMax?: number | undefined;
  readonly gpu: boolean | "auto" | undefined;
}

/** An address of this machine that only containers of some networks are let in by. */
export interface ContainerListenerSpec {
  readonly address: string;
  readonly port: number;
  /** What the Host header has to name. */
  readonly host: string;
  /** Such as 172.18.0.0/16; everybody else's connection is closed unread. */
  readonly subnets: readonly string[];
}

export interface AssistantState {
  readonly version: string;
  readonly pid: number;
  readonly engine: string;
  /** http://127.0.0.1:7777 */
  readonly url: string;
  readonly memoryBytesMax: number;
  readonly models: readonly AssistantModel[];
}

export interface AssistantModel {
  readonly id: string;
  readonly aliases: readonly string[];
  /** Of its file; null for the stub's. */
  readonly path: string | null;
  readonly sizeBytes: number | null;
  readonly state: "unloaded" | "loading" | "resident" | "unloading" | "failed";
  readonly pinned: boolean;
  readonly memoryBytes: number | null;
  /** As asked for when it was registered; null: left to the engine. */
  readonly wanted: { readonly contextTokens: number | null; readonly sequences: number | null };
  readonly contextTokens: number | null;
  readonly sequences: number | null;
  readonly loadedAt: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** It crashed, and the assistant brings it back by itself. */
  readonly recovering: boolean;
}

/** What a file says of itself, and what it would take. */
export type InspectedModel = ModelFileFacts;

/** What the rest of Berth is told of the daemon itself. */
export interface AssistantDaemon {
  report(): AssistantReport;
}

export interface AssistantReport {
  /** off: not wanted. waiting: ended, and started again after a back-off. foreign: somebody else started it. */
  readonly state: "off" | "starting" | "up" | "waiting" | "foreign";
  /** http://127.0.0.1:7777 while it is up. */
  readonly url: string | null;
  readonly pid: number | null;
  /** Starts since Berth came up; 1 for one that never ended. */
  readonly starts: number;
  /** Why it is not up, and what to do; while it is up, what its users have to know. */
  readonly message: string | null;
}
