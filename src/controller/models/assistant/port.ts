import type { ModelFileFacts } from "../../../resources/model-status.ts";

/**
 * The assistant's system instance, as the Model reconciler uses it over the control socket. Every call has its own
 * time limit. Errors are BerthErrors: `assistant_unreachable` (the assistant is off, starting or gone),
 * `insufficient_memory` and `model_unusable` as the assistant reports them, and `engine_error` for all other errors.
 */
export interface AssistantControl {
  state(signal: AbortSignal): Promise<AssistantState>;
  /** Returns the facts of a GGUF file and the memory that it needs. Throws `model_unusable`. */
  inspect(
    file: {
      readonly id: string;
      readonly path: string;
      readonly contextTokens: number | undefined;
      readonly sequences: number | undefined;
      /** The chat template that replaces the one in the model's file: its text, or the path of a file. */
      readonly chatTemplate?: string | undefined;
      readonly deterministic?: boolean | undefined;
    },
    signal: AbortSignal,
  ): Promise<InspectedModel>;
  /** Resolves when the model answers. Reloads a model that is loaded with other settings. */
  load(request: LoadModelRequest, signal: AbortSignal): Promise<void>;
  /** Resolves when the model is unloaded, or at once if it is not loaded. */
  unload(id: string, signal: AbortSignal): Promise<void>;
  /** Opens these listeners for containers, and closes all others. */
  setContainerListeners(
    listeners: readonly ContainerListenerSpec[],
    signal: AbortSignal,
  ): Promise<void>;
}

export interface LoadModelRequest {
  /** The main name under which clients request the model. */
  readonly id: string;
  /** Further names by which clients may request the model, such as the repository id. */
  readonly aliases: readonly string[];
  readonly path: string;
  readonly contextTokens: number | undefined;
  readonly sequences: number | undefined;
  /** The chat template that replaces the one in the model's file: its text, or the path of a file. */
  readonly chatTemplate?: string | undefined;
  readonly deterministic?: boolean | undefined;
  /**
   * The limit of the model's memory in bytes, so that memory is left for other processes; if absent, the model may
   * use all free memory.
   */
  readonly memoryBytesMax?: number | undefined;
  readonly gpu: boolean | "auto" | undefined;
}

/** An address of this machine that accepts connections only from containers of some networks. */
export interface ContainerListenerSpec {
  readonly address: string;
  readonly port: number;
  /** The Host header that a request must have. */
  readonly host: string;
  /**
   * The allowed networks, such as 172.18.0.0/16. A connection from another network is closed before anything is read
   * from it.
   */
  readonly subnets: readonly string[];
}

export interface AssistantState {
  readonly version: string;
  readonly pid: number;
  readonly engine: string;
  /** The URL of the assistant's endpoint, such as http://127.0.0.1:7777. */
  readonly url: string;
  readonly memoryBytesMax: number;
  readonly models: readonly AssistantModel[];
}

export interface AssistantModel {
  readonly id: string;
  readonly aliases: readonly string[];
  /** The path of the model's file; null for the model of the stub engine, which has no file. */
  readonly path: string | null;
  readonly sizeBytes: number | null;
  readonly state: "unloaded" | "loading" | "resident" | "unloading" | "failed";
  readonly pinned: boolean;
  readonly memoryBytes: number | null;
  /** The settings with which the model was registered; null for those that the registration does not have. */
  readonly wanted: {
    readonly contextTokens: number | null;
    readonly sequences: number | null;
    readonly chatTemplate?: string | null;
    readonly deterministic: boolean | null;
  };
  readonly contextTokens: number | null;
  readonly sequences: number | null;
  readonly loadedAt: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** True if the model crashed and the assistant restarts it. */
  readonly recovering: boolean;
}

/** The facts in the header of a file, and the memory that it needs. */
export type InspectedModel = ModelFileFacts;

/** The state of the daemon, as other parts of Berth see it. */
export interface AssistantDaemon {
  report(): AssistantReport;
}

export interface AssistantReport {
  /**
   * `off` means that the assistant is turned off, `waiting` that it has ended and is restarted after a back-off, and
   * `foreign` that another process started the assistant that answers.
   */
  readonly state: "off" | "starting" | "up" | "waiting" | "foreign";
  /** The URL of the assistant's endpoint, such as http://127.0.0.1:7777, while the assistant is up; otherwise null. */
  readonly url: string | null;
  readonly pid: number | null;
  /** The number of starts since Berth came up; 1 if the assistant has never exited. */
  readonly starts: number;
  /** The reason why the assistant is not up, and what to do about it; while it is up, a notice for its users. */
  readonly message: string | null;
}
