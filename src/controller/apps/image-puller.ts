import type { Clock } from "../../base/clock.ts";
import { isAbortError } from "../../base/errors.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import type { ImageRuntime, PullProgress, RegistryAuth } from "../runtime/port.ts";

/**
 * The maximum number of concurrent pulls. More pulls would only share the same bandwidth, and Docker itself pulls
 * three layers at a time.
 */
const PULLS_MAX = 3;
/** A result that no app has collected within this time is dropped: the app does not need the image any more. */
const RESULT_KEPT_MS = 60_000;

export type PullState =
  | { readonly type: "pulling"; readonly progress: PullProgress | null }
  /** `digest` is the digest of the image in the registry; null if the engine does not report it. */
  | { readonly type: "done"; readonly digest: string | null }
  | { readonly type: "failed"; readonly error: unknown; readonly progressAtMs: number };

/** The image that is pulled, and how. */
export interface PullRequest {
  readonly image: string;
  readonly auth: RegistryAuth | undefined;
  /** The platform of the image; undefined for that of the engine's machine. */
  readonly platform: string | undefined;
}

interface Pull {
  readonly request: PullRequest;
  /** The apps that have requested the pull and have not collected its result yet. */
  readonly apps: Set<string>;
  state: PullState;
}

export interface ImagePullerOptions {
  readonly runtime: ImageRuntime;
  readonly clock: Clock;
  readonly tasks: TaskGroup;
  /** Called with each App that waits for a pull when the pull has ended. */
  readonly onSettled: (app: string) => void;
}

/**
 * Pulls images concurrently with the reconcile workers, which never wait for a registry. A pull that several apps
 * need runs only once. If Berth ends during a pull, the next reconcile requests the pull again.
 */
export class ImagePuller {
  readonly #options: ImagePullerOptions;
  readonly #pulls = new Map<string, Pull>();
  readonly #waiting: Pull[] = [];
  #running = 0;

  constructor(options: ImagePullerOptions) {
    this.#options = options;
  }

  /** Returns the state of the pull; starts it if there is none. */
  ensure(app: string, request: PullRequest): PullState {
    const key = pullKey(request);
    const known = this.#pulls.get(key);
    if (known && (known.state.type === "pulling" || known.apps.has(app))) {
      known.apps.add(app);
      return known.state;
    }
    const pull: Pull = {
      request,
      apps: new Set([app]),
      state: { type: "pulling", progress: null },
    };
    this.#pulls.set(key, pull);
    this.#waiting.push(pull);
    this.#startNext();
    return pull.state;
  }

  /** Returns the state of the pull that the app has requested; undefined if there is none. */
  state(app: string, request: PullRequest): PullState | undefined {
    const pull = this.#pulls.get(pullKey(request));
    return pull?.apps.has(app) ? pull.state : undefined;
  }

  /** True if the app has requested a pull of this image and has not collected its result yet. */
  isRequested(app: string, image: string): boolean {
    return [...this.#pulls.values()].some(
      ({ request, apps }) => request.image === image && apps.has(app),
    );
  }

  /** Drops the result of a pull that has ended, so that the app's next `ensure` starts a new one. */
  collect(app: string, request: PullRequest): void {
    const key = pullKey(request);
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
      this.#options.tasks.run("image pull", async (signal) => {
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
    let progressAtMs = this.#options.clock.now();
    try {
      const { image, auth, platform } = pull.request;
      const digest = await this.#options.runtime.pullImage(
        image,
        auth,
        (progress) => {
          progressAtMs = this.#options.clock.now();
          pull.state = { type: "pulling", progress };
        },
        signal,
        platform,
      );
      pull.state = { type: "done", digest: digest ?? null };
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
      pull.state = { type: "failed", error, progressAtMs };
    }
    const key = pullKey(pull.request);
    this.#options.clock.setTimer(RESULT_KEPT_MS, () => {
      if (this.#pulls.get(key) === pull) this.#pulls.delete(key);
    });
    for (const app of pull.apps) this.#options.onSettled(app);
  }
}

function pullKey({ image, auth, platform }: PullRequest): string {
  return JSON.stringify([image, platform, auth?.server, auth?.username, auth?.password]);
}
