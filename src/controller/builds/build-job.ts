import { type Resource, SOURCE_REVISION_ANNOTATION } from "../../resources/resource.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import type { BuildLogWriter } from "./build-logs.ts";
import type { ResolvedSource } from "./port.ts";

/**
 * Why a build ends before it is done. `superseded`: the App wants another image now. `unwanted`: it
 * wants none, as `why` says. `shutdown`: Berth ends, and will be asked again.
 */
export type BuildEndReason =
  | { readonly type: "cancelled" }
  | { readonly type: "superseded"; readonly by: number }
  | { readonly type: "unwanted"; readonly why: string }
  | { readonly type: "timedOut" }
  | { readonly type: "forgotten" }
  | { readonly type: "shutdown" };

/** One build, from the moment at which it is asked for until it has ended. */
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

  constructor(input: {
    id: number;
    resource: Resource<"App">;
    source: ResolvedSource;
    /** Hides the secrets that the build could say. */
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

  /** True where a person wants this revision and no other. */
  get isHeld(): boolean {
    return this.resource.metadata.annotations[SOURCE_REVISION_ANNOTATION] !== undefined;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Set from the moment at which it is told to end, which it does a little later. */
  get endReason(): BuildEndReason | undefined {
    return this.#endReason;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** What it is at, for people. */
  get step(): string {
    return this.#step;
  }

  markRunning(): void {
    this.#isRunning = true;
  }

  setStep(step: string): void {
    this.#step = step;
  }

  /** The first reason counts. */
  abort(ending: BuildEndReason): void {
    this.#endReason ??= ending;
    this.#controller.abort();
  }
}
