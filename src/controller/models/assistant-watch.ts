import { canonicalJson } from "../../base/canonical-json.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { AssistantControl, AssistantState } from "./assistant/port.ts";

/**
 * The polling interval in milliseconds. Polling is needed because the assistant does not report
 * crashes and evictions of models.
 */
const POLL_MS = 2_000;
/**
 * The polling interval in milliseconds while there is no Model. Only the models in the assistant's own folder matter
 * then.
 */
const IDLE_POLL_MS = 30_000;

export type AssistantObservation =
  | { readonly reachable: true; readonly state: AssistantState }
  | { readonly reachable: false; readonly message: string };

interface AssistantWatchOptions {
  readonly assistant: AssistantControl;
  readonly clock: Clock;
  readonly onChange: () => void;
  /** Returns true if there is any Model. */
  readonly isNeeded: () => boolean;
}

/** Keeps the last observation of the assistant, and calls `onChange` when an observation differs from it. */
export class AssistantWatch {
  readonly #options: AssistantWatchOptions;
  #last: AssistantObservation = {
    reachable: false,
    message: "the assistant has not been contacted yet",
  };
  #lastKey = "";

  constructor(options: AssistantWatchOptions) {
    this.#options = options;
  }

  get last(): AssistantObservation {
    return this.#last;
  }

  /** Requests the state of the assistant now, in addition to the polling. */
  async observe(signal: AbortSignal): Promise<AssistantObservation> {
    try {
      this.#last = { reachable: true, state: await this.#options.assistant.state(signal) };
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
      this.#last = { reachable: false, message: getErrorMessage(error) };
    }
    const now = computeStateKey(this.#last);
    if (now !== this.#lastKey) {
      this.#lastKey = now;
      this.#options.onChange();
    }
    return this.#last;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.observe(signal);
      await delay(this.#options.clock, this.#options.isNeeded() ? POLL_MS : IDLE_POLL_MS, signal);
    }
  }
}

/** Returns a text that changes when a fact changes that a Model's status can depend on. */
function computeStateKey(observation: AssistantObservation): string {
  if (!observation.reachable) return observation.message;
  const { pid, memoryBytesMax, models } = observation.state;
  return canonicalJson([
    pid,
    memoryBytesMax,
    models.map(({ id, path, state, pinned, memoryBytes, loadedAt, error, recovering }) => [
      id,
      path,
      state,
      pinned,
      memoryBytes,
      loadedAt,
      error?.message ?? null,
      recovering,
    ]),
  ]);
}
