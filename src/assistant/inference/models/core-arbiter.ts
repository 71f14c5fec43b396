import type { Clock } from "../../../base/clock.ts";
import type { CoreLease, RequestPriority } from "../inference-engine.ts";

/**
 * The time in milliseconds for which one model computes while another model with work of the same class waits. It is no
 * shorter than a decoding step of a large model (10 to 100 ms), so that switches are rare, and short enough that a
 * reader does not notice the switches.
 */
const SLICE_MS = 100;

/**
 * The time in milliseconds after which background work that waits for the cores gets them for one runner call, so that
 * continuous interactive work of another model does not starve it.
 */
const AGEING_MS = 2_000;

interface Waiter {
  readonly client: CoreClient;
  readonly priority: RequestPriority;
  /** The time at which the wait began, in milliseconds since the Unix epoch. */
  readonly since: number;
  grant(): void;
}

interface CoreClient {
  readonly listeners: Set<(contested: boolean) => void>;
  contested: boolean;
}

/**
 * Lends the machine's cores to one model at a time. Interactive work comes first; models with work of the same class
 * alternate. The holder is never interrupted: it releases the cores between two runner calls.
 */
export class CoreArbiter {
  readonly #clock: Clock;
  readonly #waiting: Waiter[] = [];
  #holder: { readonly client: CoreClient; readonly since: number } | undefined;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  /** Creates a model's lease on the cores. */
  createCores(): CoreLease {
    const client: CoreClient = { listeners: new Set(), contested: false };
    return {
      hold: (priority, signal) => this.#hold(client, priority, signal),
      release: () => this.#release(client),
      onContest: (listener) => {
        client.listeners.add(listener);
        return () => client.listeners.delete(listener);
      },
    };
  }

  async #hold(client: CoreClient, priority: RequestPriority, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#holder) {
      this.#assignTo(client);
      return;
    }
    if (this.#holder.client === client) {
      if (!this.#hasToYield(priority)) return;
      this.#holder = undefined;
      const turn = this.#wait(client, priority, signal);
      this.#grantNext(client);
      return turn;
    }
    return this.#wait(client, priority, signal);
  }

  #hasToYield(priority: RequestPriority): boolean {
    const next = this.#chooseNext();
    if (!next || !this.#holder) return false;
    if (this.#isAged(next)) return true;
    if (next.priority !== priority) return next.priority === "interactive";
    return this.#clock.now() - this.#holder.since >= SLICE_MS;
  }

  #wait(client: CoreClient, priority: RequestPriority, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const removeWaiter = () => {
        const index = this.#waiting.indexOf(waiter);
        if (index !== -1) this.#waiting.splice(index, 1);
        signal.removeEventListener("abort", onAbort);
      };
      const onAbort = () => {
        removeWaiter();
        this.#notifyContest();
        reject(signal.reason);
      };
      const waiter: Waiter = {
        client,
        priority,
        since: this.#clock.now(),
        grant: () => {
          removeWaiter();
          resolve();
        },
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.push(waiter);
      this.#notifyContest();
    });
  }

  #release(client: CoreClient): void {
    if (this.#holder?.client !== client) return;
    this.#holder = undefined;
    this.#grantNext();
  }

  /**
   * Gives the cores to the next waiting model. `last`, the model that has just had them, gets them again only if no
   * other model waits.
   */
  #grantNext(last?: CoreClient): void {
    const next = this.#chooseNext(last) ?? this.#chooseNext();
    if (!next) return;
    this.#assignTo(next.client);
    next.grant();
    this.#notifyContest();
  }

  /**
   * Chooses the model that gets the cores next: an aged waiter first, then an interactive one, then the one that has
   * waited longest.
   */
  #chooseNext(except?: CoreClient): Waiter | undefined {
    const waiting = this.#waiting.filter(({ client }) => client !== except);
    return (
      waiting.find((waiter) => this.#isAged(waiter)) ??
      waiting.find(({ priority }) => priority === "interactive") ??
      waiting[0]
    );
  }

  #isAged({ priority, since }: Waiter): boolean {
    return priority === "background" && this.#clock.now() - since >= AGEING_MS;
  }

  #assignTo(client: CoreClient): void {
    this.#holder = { client, since: this.#clock.now() };
    this.#notifyContest();
  }

  #notifyContest(): void {
    const holder = this.#holder?.client;
    if (!holder) return;
    const contested = this.#waiting.some(({ client }) => client !== holder);
    if (holder.contested === contested) return;
    holder.contested = contested;
    for (const listener of holder.listeners) listener(contested);
  }
}
