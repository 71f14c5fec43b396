import type { Clock } from "../../../base/clock.ts";
import type { CoreLease, RequestPriority } from "../inference-engine.ts";

/**
 * How long one model computes while another of the same class waits, in milliseconds: long beside the
 * step of a large model (10 to 100 ms), so that hand-overs are rare; short beside what a reader notices.
 */
const SLICE_MS = 100;

/**
 * Background work that has waited this long for the cores gets them for one step, in milliseconds: so
 * that another model's interactive work, which never pauses, does not keep it waiting for ever.
 */
const AGEING_MS = 2_000;

interface Waiter {
  readonly member: CoreClient;
  readonly priority: RequestPriority;
  /** By the clock. */
  readonly since: number;
  grant(): void;
}

interface CoreClient {
  readonly listeners: Set<(contested: boolean) => void>;
  contested: boolean;
}

/**
 * Lends the machine's cores to one model at a time. Interactive work goes first; models whose work is of
 * the same class take turns. Nobody is interrupted: the holder lets go between two steps.
 */
export class CoreArbiter {
  readonly #clock: Clock;
  readonly #waiting: Waiter[] = [];
  #holder: { readonly member: CoreClient; readonly since: number } | undefined;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  /** The cores as one model sees them. */
  createCores(): CoreLease {
    const member: CoreClient = { listeners: new Set(), contested: false };
    return {
      hold: (priority, signal) => this.#hold(member, priority, signal),
      release: () => this.#release(member),
      onContest: (listener) => {
        member.listeners.add(listener);
        return () => member.listeners.delete(listener);
      },
    };
  }

  async #hold(member: CoreClient, priority: RequestPriority, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#holder) {
      this.#assignTo(member);
      return;
    }
    if (this.#holder.member === member) {
      if (!this.#hasToYield(priority)) return;
      this.#holder = undefined;
      const turn = this.#wait(member, priority, signal);
      this.#grantNext(member);
      return turn;
    }
    return this.#wait(member, priority, signal);
  }

  #hasToYield(priority: RequestPriority): boolean {
    const next = this.#chooseNext();
    if (!next || !this.#holder) return false;
    if (this.#isAged(next)) return true;
    if (next.priority !== priority) return next.priority === "interactive";
    return this.#clock.now() - this.#holder.since >= SLICE_MS;
  }

  #wait(member: CoreClient, priority: RequestPriority, signal: AbortSignal): Promise<void> {
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
        member,
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

  #release(member: CoreClient): void {
    if (this.#holder?.member !== member) return;
    this.#holder = undefined;
    this.#grantNext();
  }

  /** `last`: who has just had them, and gets them back only where nobody of its class waits. */
  #grantNext(last?: CoreClient): void {
    const next = this.#chooseNext(last) ?? this.#chooseNext();
    if (!next) return;
    this.#assignTo(next.member);
    next.grant();
    this.#notifyContest();
  }

  /** Who has waited too long first, then interactive, then whoever has waited longest. */
  #chooseNext(except?: CoreClient): Waiter | undefined {
    const waiting = this.#waiting.filter(({ member }) => member !== except);
    return (
      waiting.find((waiter) => this.#isAged(waiter)) ??
      waiting.find(({ priority }) => priority === "interactive") ??
      waiting[0]
    );
  }

  #isAged({ priority, since }: Waiter): boolean {
    return priority === "background" && this.#clock.now() - since >= AGEING_MS;
  }

  #assignTo(member: CoreClient): void {
    this.#holder = { member, since: this.#clock.now() };
    this.#notifyContest();
  }

  #notifyContest(): void {
    const holder = this.#holder?.member;
    if (!holder) return;
    const contested = this.#waiting.some(({ member }) => member !== holder);
    if (holder.contested === contested) return;
    holder.contested = contested;
    for (const listener of holder.listeners) listener(contested);
  }
}
