import type { Clock } from "../../../base/clock.ts";
import type { LoadedModel } from "../inference-engine.ts";
import type { KnownModel } from "./known-models.ts";

/** The right to use a resident model; the model is not unloaded before the lease is released. */
export interface ModelLease {
  readonly model: LoadedModel;
  /** Ends the lease. A second call has no effect. */
  release(): void;
}

/** The longest keep-alive time: 24 days, the limit of timers. A model with a longer time is kept forever. */
const KEEP_ALIVE_MS_MAX = 2 ** 31 - 1;

interface ResidentOptions {
  readonly known: KnownModel;
  readonly clock: Clock;
  /** The time that the idle model is kept in memory if no lease sets another time. */
  readonly keepAliveMs: number;
  readonly onIdle: () => void;
  /** Called when the model has been idle for its keep-alive time. */
  readonly onExpired: () => void;
}

/** A model that is loading, in memory or unloading: loading -> resident -> unloading. */
export class Resident {
  /**
   * The latest registration of the model. Its file and settings equal those of the loaded model, because another file
   * or other settings cause a reload.
   */
  known: KnownModel;
  state: "loading" | "resident" | "unloading" = "loading";
  /** Aborts the load. */
  readonly loadAbort = new AbortController();
  /** Resolves when the model is resident; rejects when the load fails. */
  ready: Promise<LoadedModel> = new Promise(() => {});
  /** Resolves when the model is unloaded; undefined before the unloading begins. */
  unloaded: Promise<void> | undefined;
  model: LoadedModel | undefined;
  /** The time when the model became resident, in epoch milliseconds. */
  loadedAt = 0;
  lastUsed: number;
  /** The time when the idle model is unloaded; undefined if the model is in use, or is kept forever. */
  expiresAt: number | undefined;
  readonly #options: ResidentOptions;
  #leases = 0;
  #keepAliveMs: number;
  #cancelExpiry = () => {};

  constructor(options: ResidentOptions) {
    this.#options = options;
    this.known = options.known;
    this.#keepAliveMs = options.keepAliveMs;
    this.lastUsed = options.clock.now();
  }

  get isInUse(): boolean {
    return this.#leases > 0;
  }

  markLoaded(model: LoadedModel): void {
    this.model = model;
    this.state = "resident";
    this.loadedAt = this.#options.clock.now();
    if (!this.isInUse) this.#becomeIdle();
  }

  /**
   * Leases the model. `keepAliveMs` is how long the idle model is kept after this lease, and after later leases that
   * set no time.
   */
  lease(model: LoadedModel, keepAliveMs: number | undefined): ModelLease {
    this.#leases++;
    this.lastUsed = this.#options.clock.now();
    this.cancelExpiry();
    if (keepAliveMs !== undefined) this.#keepAliveMs = keepAliveMs;
    let released = false;
    return {
      model,
      release: () => {
        if (released) return;
        released = true;
        this.#leases--;
        this.lastUsed = this.#options.clock.now();
        if (!this.isInUse) this.#becomeIdle();
      },
    };
  }

  /** Cancels the timer that would unload the idle model. */
  cancelExpiry(): void {
    this.#cancelExpiry();
    this.expiresAt = undefined;
  }

  #becomeIdle(): void {
    this.cancelExpiry();
    if (this.#keepAliveMs <= KEEP_ALIVE_MS_MAX && this.state === "resident") {
      this.expiresAt = this.#options.clock.now() + this.#keepAliveMs;
      this.#cancelExpiry = this.#options.clock.setTimer(this.#keepAliveMs, () => {
        if (!this.isInUse && this.state === "resident") this.#options.onExpired();
      });
    }
    this.#options.onIdle();
  }
}
