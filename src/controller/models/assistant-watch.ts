import { canonicalJson } from "../../base/canonical.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { isAbort, messageOf } from "../../base/errors.ts";
import type { AssistantControl, AssistantState } from "./assistant/port.ts";

/** How often the assistant is asked, in milliseconds: nothing tells when a model crashes or makes way. */
const POLL_MS = 2_000;
/** The same while there is no Model: only its own files are of interest then. */
const IDLE_POLL_MS = 30_000;

export type AssistantSight =
  | { readonly reachable: true; readonly state: AssistantState }
  | { readonly reachable: false; readonly message: string };

/** What the assistant last said of itself, and whoever wants to know when that changes. */
export class AssistantWatch {
  readonly #assistant: AssistantControl;
  readonly #clock: Clock;
  readonly #onChange: () => void;
  readonly #isNeeded: () => boolean;
  #sight: AssistantSight = { reachable: false, message: "the assistant has not been asked yet" };
  #known = "";

  constructor(options: {
    readonly assistant: AssistantControl;
    readonly clock: Clock;
    readonly onChange: () => void;
    /** Whether there is a Model at all. */
    readonly isNeeded: () => boolean;
  }) {
    this.#assistant = options.assistant;
    this.#clock = options.clock;
    this.#onChange = options.onChange;
    this.#isNeeded = options.isNeeded;
  }

  get last(): AssistantSight {
    return this.#sight;
  }

  /** Asks now. */
  async look(signal: AbortSignal): Promise<AssistantSight> {
    try {
      this.#sight = { reachable: true, state: await this.#assistant.state(signal) };
    } catch (error) {
      if (isAbort(error) && signal.aborted) throw error;
      this.#sight = { reachable: false, message: messageOf(error) };
    }
    const now = essenceOf(this.#sight);
    if (now !== this.#known) {
      this.#known = now;
      this.#onChange();
    }
    return this.#sight;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.look(signal);
      await delay(this.#clock, this.#isNeeded() ? POLL_MS : IDLE_POLL_MS, signal);
    }
  }
}

/** What a Model's status can depend on. */
function essenceOf(sight: AssistantSight): string {
  if (!sight.reachable) return sight.message;
  const { pid, memoryBytesMax, models } = sight.state;
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
