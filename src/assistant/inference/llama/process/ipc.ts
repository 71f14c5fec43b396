import { AssistantError, assistantErrorCodes } from "../../../assistant-error.ts";
import type {
  GenerateEvent,
  GenerateJob,
  ModelLoad,
  RequestPriority,
} from "../../inference-engine.ts";
import type { EmbeddingResult, Prompt, Token } from "../../runner.ts";
import type { Measurements } from "../threads/calibration-cache.ts";

/**
 * The messages from the parent to a model's process; `FromChild` contains those in the other direction. Node's channel
 * keeps the order of messages and copies them like structuredClone. Both ends come from the same build, so messages are
 * not validated.
 */
export type ToChild =
  | { readonly type: "load"; readonly load: LoadParams }
  | { readonly type: "generate"; readonly id: number; readonly job: GenerateJob }
  /** Reports that the caller has read `count` more events of a generation. */
  | { readonly type: "credit"; readonly id: number; readonly count: number }
  | {
      readonly type: "embed";
      readonly id: number;
      readonly texts: readonly string[];
      readonly priority: RequestPriority;
    }
  | { readonly type: "encode"; readonly id: number; readonly prompt: Prompt }
  /** Reports that the caller does not wait for the job any more. */
  | { readonly type: "cancel"; readonly id: number }
  /** Grants the lease on the CPU cores that the child requested with `hold`. */
  | { readonly type: "granted"; readonly id: number }
  | { readonly type: "contested"; readonly contested: boolean }
  | { readonly type: "ping" };

export type FromChild =
  /** Reports that the child accepts messages. */
  | { readonly type: "ready" }
  /** The loaded share of the weights, from 0 to 1. */
  | { readonly type: "progress"; readonly done: number }
  | { readonly type: "loaded"; readonly loaded: LoadResult }
  | { readonly type: "refused"; readonly error: SerializedError }
  /** Reports all job events that occurred in one turn of the event loop, in one message to save IPC calls. */
  | { readonly type: "events"; readonly events: readonly JobEvent[]; readonly load: ModelLoad }
  | { readonly type: "hold"; readonly id: number; readonly priority: RequestPriority }
  | { readonly type: "cancel-hold"; readonly id: number }
  | { readonly type: "release" }
  | { readonly type: "pong" }
  /** Reports that the model has failed. The parent then ends the process. */
  | { readonly type: "broken"; readonly reason: string };

export interface LoadParams {
  readonly id: string;
  readonly path: string;
  /** The chat template that replaces the file's own. */
  readonly chatTemplate: string | undefined;
  readonly contextTokens: number;
  readonly sequences: number;
  readonly embeddingsAtOnce: number;
  readonly memoryBytes: number;
  readonly threadsMax: number;
  readonly isDeterministic: boolean;
  readonly gpu: "auto" | false;
  /** The thread counts and batch costs of an earlier load; undefined if the child must measure. */
  readonly measured: Measurements | undefined;
}

export interface LoadResult {
  readonly threads: number;
  readonly sequences: number;
  readonly contextTokens: number;
  /**
   * The thread counts and batch costs that the child measured in this load; undefined if the parent sent earlier ones.
   */
  readonly measured: Measurements | undefined;
  /** True if the measurements are reliable enough for the next load. */
  readonly steady: boolean;
}

/**
 * A message about the job with this `id`. A message with `event` reports progress; every other message ends the job.
 */
export type JobEvent =
  | { readonly id: number; readonly event: GenerateEvent }
  | { readonly id: number; readonly done: true }
  | { readonly id: number; readonly tokens: readonly Token[] }
  | { readonly id: number; readonly embedded: EmbeddingResult }
  | { readonly id: number; readonly error: SerializedError };

/**
 * The maximum number of a generation's events that are sent but not read: some seconds of a fast model.
 * When it is reached, the generation pauses until its reader catches up.
 */
export const EVENT_CREDIT_MAX = 128;
/**
 * The parent sends a credit after it has read this many events of a generation. The credit lets the child send as many
 * further events.
 */
export const CREDIT_BATCH = 32;

export interface SerializedError {
  readonly code: string;
  readonly message: string;
  readonly param: string | undefined;
  readonly retryAfterSeconds: number | undefined;
}

/**
 * Replaces an unexpected error, such as one of node-llama-cpp, with a general message. The error's own message may
 * contain paths, so it is only logged.
 */
export function serializeError(error: unknown, onError: (error: unknown) => void): SerializedError {
  if (error instanceof AssistantError) {
    const { code, message, param, retryAfterSeconds } = error;
    return { code, message, param, retryAfterSeconds };
  }
  onError(error);
  return {
    code: "engine_failed",
    message: "the model failed to compute the answer; the assistant's log has the reason",
    param: undefined,
    retryAfterSeconds: undefined,
  };
}

export function deserializeError({
  code,
  message,
  param,
  retryAfterSeconds,
}: SerializedError): AssistantError {
  return new AssistantError(
    assistantErrorCodes.find((known) => known === code) ?? "engine_failed",
    message,
    { param, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) },
  );
}
