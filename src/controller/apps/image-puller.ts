import type { Clock } from "../../base/clock.ts";
import { isAbortError } from "../../base/errors.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { ImageRuntime, PullProgress, RegistryAuth } from "../runtime/port.ts";

/** Pulls at once; more would only share the same line. Docker itself takes three layers at a time. */
const PULLS_MAX = 3;
/** A result that an app has not come for within this time was for something that it no longer wants. */
const RESULT_KEPT_MS = 60_000;

export type PullState =
  | {
      readonly type: "pulling";
      readonly progress: PullProgress | null;
      readonly progressAtMs: number;
    }
  | { readonly type: "done" }
  | { readonly type: "failed"; readonly error: unknown };

interface Pull {
  readonly image: string;
  readonly auth: RegistryAuth | undefined;
  /** Those that have asked and not yet collected the result. */
  readonly apps: Set<string>;
  state: PullState;
}

/**
 * Pulls images beside the reconcile workers, which never wait for a registry. A pull that several
 * apps want runs once. What is under way is lost with the process, and simply asked for again.
 */
export class ImagePuller {
  readonly #runtime: ImageRuntime;
  readonly #clock: Clock;
  readonly #tasks: TaskGroup;
  readonly #onSettled: (app: string) => void;
  readonly #pulls = new Map<string, Pull>();
  readonly #waiting: Pull[] = [];
  #running = 0;

  constructor(options: {
    runtime: ImageRuntime;
    clock: Clock;
    tasks: TaskGroup;
    onSettled: (app: string) => void;
  }) {
    this.#runtime = options.runtime;
    this.#clock = options.clock;
    this.#tasks = options.tasks;
    this.#onSettled = options.onSettled;
  }

  /** The pull of this image with these credentials, begun where there is none. */
  ensure(app: string, image: string, auth: RegistryAuth | undefined): PullState {
    const key = pullKey(image, auth);
    const known = this.#pulls.get(key);
    if (known && (known.state.type === "pulling" || known.apps.has(app))) {
      known.apps.add(app);
      return known.state;
    }
    const pull: Pull = {
      image,
      auth,
      apps: new Set([app]),
      state: { type: "pulling", progress: null, progressAtMs: this.#clock.now() },
    };
    this.#pulls.set(key, pull);
    this.#waiting.push(pull);
    this.#startNext();
    return pull.state;
  }

  /** The pull of this image with these credentials that the app has asked for, where there is one. */
  state(app: string, image: string, auth: RegistryAuth | undefined): PullState | undefined {
    const pull = this.#pulls.get(pullKey(image, auth));
    return pull?.apps.has(app) ? pull.state : undefined;
  }

  /** Takes the result of a pull that has ended, so that the app's next `ensure` begins a new one. */
  collect(app: string, image: string, auth: RegistryAuth | undefined): void {
    const key = pullKey(image, auth);
    const pull = this.#pulls.get(key);
    if (!pull || pull.state.type === "pulling") return;
    pull.apps.delete(app);
    if (pull.apps.size === 0) this.#pulls.delete(key);
  }

  #startNext(): void {
    while (this.#running < PULLS_MAX) {
      const pull = this.#waiting.shift();
      if (!pull) return;
      this.#running += 1;
      this.#tasks.run("image pull", async (signal) => {
        try {
          await this.#pull(pull, signal);
        } finally {
          this.#running -= 1;
          this.#startNext();
        }
      });
    }
  }

  async #pull(pull: Pull, signal: AbortSignal): Promise<void> {
    try {
      await this.#runtime.pullImage(
        pull.image,
        pull.auth,
        (progress) => {
          pull.state = { type: "pulling", progress, progressAtMs: this.#clock.now() };
        },
        signal,
      );
      pull.state = { type: "done" };
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
      pull.state = { type: "failed", error };
    }
    const key = pullKey(pull.image, pull.auth);
    this.#clock.setTimer(RESULT_KEPT_MS, () => {
      if (this.#pulls.get(key) === pull) this.#pulls.delete(key);
    });
    for (const app of pull.apps) this.#onSettled(app);
  }
}

function pullKey(image: string, auth: RegistryAuth | undefined): string {
  return JSON.stringify([image, auth?.server, auth?.username, auth?.password]);
}
