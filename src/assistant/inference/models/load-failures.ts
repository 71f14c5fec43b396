import { backoffMs } from "../../../base/backoff.ts";
import { AssistantError } from "../../assistant-error.ts";

/** The back-off after failed loads. A model that always fails is tried once a minute. */
const loadBackoff = { firstMs: 1_000, maxMs: 60_000 };
/** If the model ran this long before it failed, in milliseconds, the back-off starts again with its shortest delay. */
const HEALTHY_AFTER_MS = 60_000;

interface LoadFailure {
  readonly error: AssistantError;
  /** The number of consecutive failures. */
  readonly count: number;
  /** The value of `Clock.now()` from which the model may be loaded again. */
  readonly retryAt: number;
  /** The time when the file was last written. If the file has changed since the failure, the failure is ignored. */
  readonly fileStamp: number;
}

/**
 * Records failures of models, and when each model may be loaded again. Times are values of `Clock.now()` in
 * milliseconds.
 */
export class LoadFailures {
  readonly #failures = new Map<string, LoadFailure>();

  /**
   * Records a failure. `heldMs` is the time for which the model was resident before it failed; it is 0 if the
   * load failed.
   */
  add(
    id: string,
    failure: { error: AssistantError; now: number; heldMs: number; fileStamp: number },
  ): LoadFailure {
    const before = failure.heldMs >= HEALTHY_AFTER_MS ? 0 : (this.#failures.get(id)?.count ?? 0);
    // A lack of memory has no back-off, because memory may become free at any time and a check of it loads nothing.
    const waitMs =
      failure.error.code === "insufficient_memory" ? 0 : backoffMs(before, loadBackoff);
    const added = {
      error: failure.error,
      count: before + 1,
      retryAt: failure.now + waitMs,
      fileStamp: failure.fileStamp,
    };
    this.#failures.set(id, added);
    return added;
  }

  /** Returns the last failure of this file, even if its back-off has ended. */
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

/** Converts an engine's error into one that callers may see. */
export function toLoadError(error: unknown, id: string): AssistantError {
  return error instanceof AssistantError
    ? error
    : new AssistantError("model_unusable", `model ${id} could not be loaded`, { cause: error });
}

/**
 * Adds to an error the time after which the client may send the request again. It is used for requests during the
 * back-off.
 */
export function withRetryAfter(error: AssistantError, waitMs: number): AssistantError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  // Only the message of `engine_failed` needs the hint, because the messages of the other errors of a failed load
  // already say what to do.
  const hint = error.code === "engine_failed" ? `; try again in ${seconds} s` : "";
  return new AssistantError(error.code, `${error.message}${hint}`, {
    param: error.param,
    retryAfterSeconds: seconds,
    cause: error,
  });
}

/** Returns log fields: code and message of an expected error, any other error with its stack. */
export function toLogFields(error: unknown): object {
  return error instanceof AssistantError && error.code !== "internal"
    ? { code: error.code, reason: error.message }
    : { err: error };
}
