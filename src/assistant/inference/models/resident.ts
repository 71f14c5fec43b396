import type { Clock } from "../../../base/clock.ts";
import type { LoadedModel } from "../inference-engine.ts";
import type { KnownModel } from "./known-models.ts";

/** A resident model in use; it is not unloaded before it is let go. */
export interface ModelLease {
  readonly model: LoadedModel;
  /** Safe to call twice. */
  release(): void;
}

/** What a timer can hold, 24 days; a model that is to stay longer stays. */
const KEEP_ALIVE_MS_MAX = 2 ** 31 - 1;

/** One model on its way into memory, in it, or on its way out: loading -> resident -> unloading. */
export class Resident {
  /** As it was registered last; its file and settings are those that it was loaded with. */
  known: KnownModel;
  state: "loading" | "resident" | "unloading" = "loading";
  /** Ends a load. */
  readonly loadAbort = new AbortController();
  /** Resolves when it is resident, rejects when it cannot be. */
  ready: Promise<LoadedModel> = new Promise(() => {});
  /** Resolves when it is gone. */
  unloaded: Promise<void> | undefined;
  model: LoadedModel | undefined;
  /** Epoch milliseconds, as everything here that is a time. */
  loadedAt = 0;
  lastUsed: number;
  /** When it goes, while it is idle; undefined: not by itself. */
  expiresAt: number | undefined;
  readonly #clock: Clock;
  readonly #onIdle: () => void;
  readonly #onExpired: () => void;
  #leases = 0;
  #keepAliveMs: number;
  #cancelExpiry = () => {};

  constructor(options: {
    readonly known: KnownModel;
    readonly clock: Clock;
    readonly keepAliveMs: number;
    readonly onIdle: () => void;
    readonly onExpired: () => void;
  }) {
    this.known = options.known;
    this.#clock = options.clock;
    this.#keepAliveMs = options.keepAliveMs;
    this.#onIdle = options.onIdle;
    this.#onExpired = options.onExpired;
    this.lastUsed = this.#clock.now();
  }

  get isInUse(): boolean {
    return this.#leases > 0;
  }

  markLoaded(model: LoadedModel): void {
    this.model = model;
    this.state = "resident";
    this.loadedAt = this.#clock.now();
    if (!this.isInUse) this.#becomeIdle();
  }

  /** `keepAliveMs`: how long it stays after this use, and after later ones that do not say. */
  lease(model: LoadedModel, keepAliveMs: number | undefined): ModelLease {
    this.#leases++;
    this.lastUsed = this.#clock.now();
    this.cancelExpiry();
    if (keepAliveMs !== undefined) this.#keepAliveMs = keepAliveMs;
    let released = false;
    return {
      model,
      release: () => {
        if (released) return;
        released = true;
        this.#leases--;
        this.lastUsed = this.#clock.now();
        if (!this.isInUse) this.#becomeIdle();
      },
    };
  }

  /** It does not go by itself any more. */
  cancelExpiry(): void {
    this.#cancelExpiry();
    this.expiresAt = undefined;
  }

  #becomeIdle(): void {
    this.cancelExpiry();
    if (this.#keepAliveMs <= KEEP_ALIVE_MS_MAX && this.state === "resident") {
      this.expiresAt = this.#clock.now() + this.#keepAliveMs;
      this.#cancelExpiry = this.#clock.setTimer(this.#keepAliveMs, () => {
        if (!this.isInUse && this.state === "resident") this.#onExpired();
      });
    }
    this.#onIdle();
  }
}
