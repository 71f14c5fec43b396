import { type Resource, SOURCE_REVISION_ANNOTATION } from "../../resources/resource.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import type { BuildLogWriter } from "./build-logs.ts";
import type { SpaceShortage, SpaceWait } from "./free-space.ts";
import type { ResolvedSource } from "./port.ts";

/**
 * The reason why Berth ends a build early. `superseded`: the App now needs another image. `unwanted`: the App needs no
 * image; `why` is the explanation. `shutdown`: Berth is ending; the build is requested again after the next start.
 */
export type BuildEndReason =
  | { readonly type: "cancelled" }
  | { readonly type: "superseded"; readonly by: number }
  | { readonly type: "unwanted"; readonly why: string }
  | { readonly type: "timedOut" }
  | { readonly type: "forgotten" }
  | { readonly type: "shutdown" };

/** One build from its request to its end. */
export class BuildJob {
  readonly id: number;
  readonly resource: Resource<"App">;
  readonly source: ResolvedSource;
  readonly mask: SecretMask;
  readonly log: BuildLogWriter;
  readonly #controller = new AbortController();
  #endReason: BuildEndReason | undefined;
  #isRunning = false;
  #step = "begins";
  #spaceWait: SpaceWait | undefined;
  /**
   * The reason why the last try ran out of space. Undefined before the first such try, and after a user has requested
   * the build again.
   */
  shortage: SpaceShortage | undefined;

  constructor(input: {
    id: number;
    resource: Resource<"App">;
    source: ResolvedSource;
    /** Hides secrets in the build's output. */
    mask: SecretMask;
    log: BuildLogWriter;
  }) {
    this.id = input.id;
    this.resource = input.resource;
    this.source = input.source;
    this.mask = input.mask;
    this.log = input.log;
  }

  get app(): string {
    return this.resource.metadata.name;
  }

  get image(): string {
    return this.source.image;
  }

  /** True if a user pinned the App to exactly this revision. */
  get isHeld(): boolean {
    return this.resource.metadata.annotations[SOURCE_REVISION_ANNOTATION] !== undefined;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * The reason why Berth ends the build early; undefined if it does not. The reason is set at once, although the build
   * ends a little later.
   */
  get endReason(): BuildEndReason | undefined {
    return this.#endReason;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** The progress of the build for messages, such as "step 3 of 7: RUN npm ci". */
  get step(): string {
    return this.#step;
  }

  /** The space that the queued build waits for; undefined if the build only waits for earlier builds. */
  get spaceWait(): SpaceWait | undefined {
    return this.#spaceWait;
  }

  markRunning(): void {
    this.#isRunning = true;
  }

  /** Records that the build is in the queue again, because it waits for the disk space that `wait` describes. */
  markWaiting(wait: SpaceWait): void {
    this.#isRunning = false;
    this.#spaceWait = wait;
  }

  endSpaceWait(): void {
    this.#spaceWait = undefined;
  }

  setStep(step: string): void {
    this.#step = step;
  }

  /** Cancels the build. Only the reason of the first call counts. */
  abort(ending: BuildEndReason): void {
    this.#endReason ??= ending;
    this.#controller.abort();
  }
}
