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
 * What a model's process and its parent say to each other. Node's channel keeps the order and copies
 * objects as structuredClone does. Both ends are of the same build, so messages are not validated.
 */
export type ToChild =
  | { readonly type: "load"; readonly load: LoadParams }
  | { readonly type: "generate"; readonly id: number; readonly job: GenerateJob }
  /** The caller has taken so many more events of a generation. */
  | { readonly type: "credit"; readonly id: number; readonly count: number }
  | {
      readonly type: "embed";
      readonly id: number;
      readonly texts: readonly string[];
      readonly priority: RequestPriority;
    }
  | { readonly type: "encode"; readonly id: number; readonly prompt: Prompt }
  /** Nobody waits for that job any more. */
  | { readonly type: "cancel"; readonly id: number }
  /** The answer to `hold`. */
  | { readonly type: "granted"; readonly id: number }
  | { readonly type: "contested"; readonly contested: boolean }
  | { readonly type: "ping" };

export type FromChild =
  /** The child listens. */
  | { readonly type: "ready" }
  /** Of the weights, from 0 to 1. */
  | { readonly type: "progress"; readonly done: number }
  | { readonly type: "loaded"; readonly loaded: LoadResult }
  | { readonly type: "refused"; readonly error: SerializedError }
  /** What happened to jobs in one turn of the event loop. */
  | { readonly type: "events"; readonly events: readonly JobEvent[]; readonly load: ModelLoad }
  | { readonly type: "hold"; readonly id: number; readonly priority: RequestPriority }
  | { readonly type: "cancel-hold"; readonly id: number }
  | { readonly type: "release" }
  | { readonly type: "pong" }
  /** The model is of no use any more, and the process ends. */
  | { readonly type: "broken"; readonly reason: string };

export interface LoadParams {
  readonly id: string;
  readonly path: string;
  readonly contextTokens: number;
  readonly sequences: number;
  readonly embeddingsAtOnce: number;
  readonly memoryBytes: number;
  readonly threadsMax: number;
  readonly gpu: "auto" | false;
  /** From an earlier load; undefined: measure. */
  readonly measured: Measurements | undefined;
}

export interface LoadResult {
  readonly threads: number;
  readonly sequences: number;
  readonly contextTokens: number;
  /** What was measured now, if anything was. */
  readonly measured: Measurements | undefined;
  /** It is worth keeping for the next load. */
  readonly steady: boolean;
}

/** One thing that happened to job `id`; after all but `event` the job is over. */
export type JobEvent =
  | { readonly id: number; readonly event: GenerateEvent }
  | { readonly id: number; readonly done: true }
  | { readonly id: number; readonly tokens: readonly Token[] }
  | { readonly id: number; readonly embedded: EmbeddingResult }
  | { readonly id: number; readonly error: SerializedError };

/**
 * Events of one generation that are on their way or wait to be taken. Some seconds of a fast model;
 * when they are used up, the model stops stepping for a reader that does not keep up.
 */
export const EVENT_CREDIT_MAX = 128;
/** How many are taken before the child hears of it. */
export const CREDIT_BATCH = 32;

export interface SerializedError {
  readonly code: string;
  readonly message: string;
  readonly param: string | undefined;
  readonly retryAfterSeconds: number | undefined;
}

/** What is no AssistantError came from the library: its text may hold paths, and stays in the log. */
export function serializeError(error: unknown, onError: (error: unknown) => void): SerializedError {
  if (error instanceof AssistantError) {
    const { code, message, param, retryAfterSeconds } = error;
    return { code, message, param, retryAfterSeconds };
  }
  onError(error);
  return {
    code: "engine_failed",
    message: "the model failed to compute this; the log of the assistant says why",
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
