import { AssistantError } from "../../assistant-error.ts";

/** The first wait after a failure, doubled with each one that follows, in milliseconds. */
const BACKOFF_FIRST_MS = 1_000;
/** A model that fails for ever is tried once a minute. */
const BACKOFF_MAX_MS = 60_000;
/** A model that held this long and fails then has not failed before. */
const HEALTHY_AFTER_MS = 60_000;

interface LoadFailure {
  readonly error: AssistantError;
  /** How often in a row. */
  readonly count: number;
  /** When it may be tried again, by the clock. */
  readonly retryAt: number;
  /** What the file looked like; another file is another matter. */
  readonly fileStamp: number;
}

/** What went wrong with models, and when each may be tried again. Times are the clock's, in milliseconds. */
export class LoadFailures {
  readonly #failures = new Map<string, LoadFailure>();

  /** `heldMs`: how long the model had been there before it ended; 0 where it never was. */
  add(
    id: string,
    failure: { error: AssistantError; now: number; heldMs: number; fileStamp: number },
  ): LoadFailure {
    const before = failure.heldMs >= HEALTHY_AFTER_MS ? 0 : (this.#failures.get(id)?.count ?? 0);
    // Memory may be free the next moment, and finding out takes no load.
    const waitMs =
      failure.error.code === "insufficient_memory"
        ? 0
        : Math.min(BACKOFF_FIRST_MS * 2 ** before, BACKOFF_MAX_MS);
    const added = {
      error: failure.error,
      count: before + 1,
      retryAt: failure.now + waitMs,
      fileStamp: failure.fileStamp,
    };
    this.#failures.set(id, added);
    return added;
  }

  /** The last failure of this file, whether its wait is over or not. */
  get(id: string, fileStamp: number): LoadFailure | undefined {
    const failure = this.#failures.get(id);
    return failure?.fileStamp === fileStamp ? failure : undefined;
  }

  lastError(id: string): AssistantError | undefined {
    return this.#failures.get(id)?.error;
  }

  forget(id: string): void {
    this.#failures.delete(id);
  }
}

/** What an engine threw, as callers may hear it. */
export function toLoadError(error: unknown, id: string): AssistantError {
  return error instanceof AssistantError
    ? error
    : new AssistantError("model_unusable", `model ${id} could not be loaded`, { cause: error });
}

/** The same error, for whoever asks before the time has come. */
export function withRetryAfter(error: AssistantError, waitMs: number): AssistantError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  // Other errors say themselves what to do.
  const hint = error.code === "engine_failed" ? `; try again in ${seconds} s` : "";
  return new AssistantError(error.code, `${error.message}${hint}`, {
    param: error.param,
    retryAfterSeconds: seconds,
    cause: error,
  });
}

/** For the log: what was foreseen is told in a line, anything else with its stack. */
export function toLogFields(error: unknown): object {
  return error instanceof AssistantError && error.code !== "internal"
    ? { code: error.code, reason: error.message }
    : { err: error };
}
