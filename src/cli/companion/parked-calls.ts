import type { AgentClient } from "../../client/bus/agent-client.ts";
import {
  type ConfirmationSpec,
  confirmationSpec,
  waitingCalls,
} from "../../client/bus/agent-wire.ts";

/** Of each kind; the oldest are forgotten, whoever floods the bus. */
const KEPT_MAX = 1000;
/** The signal comes before the answer to the call, unless somebody is slow to pass it on. */
const SPEC_MS_MAX = 2000;

/**
 * Calls that wait for a person, and how they ended, as the companion announces it from now on; with
 * `catchUp` also those that wait already.
 */
export class ParkedCalls implements Disposable {
  readonly #specs = new Map<bigint, ConfirmationSpec>();
  readonly #ended = new Map<bigint, string>();
  readonly #listeners = new Set<() => void>();
  #unsubscribe: () => void = () => {};

  static async watch(agent: AgentClient): Promise<ParkedCalls> {
    const calls = new ParkedCalls();
    calls.#unsubscribe = await agent.subscribe({
      confirmationRequested: (callId, spec) =>
        calls.#keep(calls.#specs, callId, confirmationSpec(spec)),
      callResolved: (callId, status) => calls.#keep(calls.#ended, callId, status),
    });
    return calls;
  }

  /** Resolves with how many wait. */
  async catchUp(agent: AgentClient, signal: AbortSignal): Promise<number> {
    for (const { callId, spec } of waitingCalls(await agent.listParked(signal)))
      this.#keep(this.#specs, callId, spec);
    return this.#waiting().length;
  }

  /** Undefined where no such call waits, as far as is known. */
  known(callId: bigint): ConfirmationSpec | undefined {
    return this.#ended.has(callId) ? undefined : this.#specs.get(callId);
  }

  /** Undefined where the companion does not tell, for two seconds. */
  async spec(callId: bigint, signal: AbortSignal): Promise<ConfirmationSpec | undefined> {
    const late = AbortSignal.timeout(SPEC_MS_MAX);
    try {
      return await this.#until(() => this.#specs.get(callId), AbortSignal.any([signal, late]));
    } catch (error) {
      if (signal.aborted) throw error;
      return undefined;
    }
  }

  /** Resolves with the status when the call waits no more. */
  end(callId: bigint, signal: AbortSignal): Promise<string> {
    return this.#until(() => this.#ended.get(callId), signal);
  }

  /** The oldest one that waits, and takes it out. */
  async next(signal: AbortSignal): Promise<readonly [bigint, ConfirmationSpec]> {
    const [callId, spec] = await this.#until(() => this.#waiting()[0], signal);
    this.#specs.delete(callId);
    return [callId, spec];
  }

  [Symbol.dispose](): void {
    this.#unsubscribe();
  }

  /** In the order of their numbers: one that came while the list was fetched may stand before it. */
  #waiting(): (readonly [bigint, ConfirmationSpec])[] {
    return [...this.#specs]
      .filter(([id]) => !this.#ended.has(id))
      .toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  #keep<T>(kept: Map<bigint, T>, callId: bigint, value: T): void {
    kept.set(callId, value);
    const [oldest] = kept.keys();
    if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
    for (const listener of this.#listeners) listener();
  }

  #until<T>(look: () => T | undefined, signal: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const done = () => {
        this.#listeners.delete(listener);
        signal.removeEventListener("abort", onAbort);
      };
      const onAbort = () => {
        done();
        reject(signal.reason);
      };
      const listener = () => {
        const found = look();
        if (found === undefined) return;
        done();
        resolve(found);
      };
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      signal.addEventListener("abort", onAbort, { once: true });
      this.#listeners.add(listener);
      listener();
    });
  }
}
