import type { AgentClient } from "../../client/bus/agent-client.ts";
import {
  type ConfirmationSpec,
  parseConfirmationSpec,
  parseParkedCalls,
} from "../../client/bus/agent-wire.ts";

/** The number of calls and results that are kept. Older ones are dropped, so that a flood of signals does no harm. */
const KEPT_MAX = 1000;
/**
 * The longest wait for the signal that announces a waiting call. The signal usually arrives before the answer to
 * RequestCall.
 */
const SPEC_MS_MAX = 2000;

/**
 * Tracks the calls that wait for a confirmation, and their results, from the signals of the companion. `catchUp` adds
 * the calls that are waiting already.
 */
export class ParkedCallWatcher implements Disposable {
  readonly #specs = new Map<bigint, ConfirmationSpec>();
  readonly #ended = new Map<bigint, string>();
  readonly #listeners = new Set<() => void>();
  #unsubscribe: () => void = () => {};

  static async watch(agent: AgentClient): Promise<ParkedCallWatcher> {
    const calls = new ParkedCallWatcher();
    calls.#unsubscribe = await agent.subscribe({
      confirmationRequested: (callId, spec) =>
        calls.#remember(calls.#specs, callId, parseConfirmationSpec(spec)),
      callResolved: (callId, status) => calls.#remember(calls.#ended, callId, status),
    });
    return calls;
  }

  /** Remembers the calls that are waiting already. Resolves with the number of all waiting calls. */
  async catchUp(agent: AgentClient, signal: AbortSignal): Promise<number> {
    for (const { callId, spec } of parseParkedCalls(await agent.listParked(signal)))
      this.#remember(this.#specs, callId, spec);
    return this.#listParked().length;
  }

  /** Returns the spec of a waiting call; undefined if no such call is known. */
  find(callId: bigint): ConfirmationSpec | undefined {
    return this.#ended.has(callId) ? undefined : this.#specs.get(callId);
  }

  /**
   * Resolves with the spec of the call, or with undefined if the companion does not announce the call within two
   * seconds.
   */
  async waitForSpec(callId: bigint, signal: AbortSignal): Promise<ConfirmationSpec | undefined> {
    const late = AbortSignal.timeout(SPEC_MS_MAX);
    try {
      return await this.#waitFor(() => this.#specs.get(callId), AbortSignal.any([signal, late]));
    } catch (error) {
      if (signal.aborted) throw error;
      return undefined;
    }
  }

  /** Resolves with the status once the call no longer waits. */
  waitForEnd(callId: bigint, signal: AbortSignal): Promise<string> {
    return this.#waitFor(() => this.#ended.get(callId), signal);
  }

  /** Removes and returns the oldest waiting call. */
  async takeNext(signal: AbortSignal): Promise<readonly [bigint, ConfirmationSpec]> {
    const [callId, spec] = await this.#waitFor(() => this.#listParked()[0], signal);
    this.#specs.delete(callId);
    return [callId, spec];
  }

  [Symbol.dispose](): void {
    this.#unsubscribe();
  }

  /**
   * Lists the waiting calls sorted by id. Their order in the map is wrong if a call was announced while the list was
   * fetched.
   */
  #listParked(): (readonly [bigint, ConfirmationSpec])[] {
    return [...this.#specs]
      .filter(([id]) => !this.#ended.has(id))
      .toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  #remember<T>(kept: Map<bigint, T>, callId: bigint, value: T): void {
    kept.set(callId, value);
    const [oldest] = kept.keys();
    if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
    for (const listener of this.#listeners) listener();
  }

  #waitFor<T>(read: () => T | undefined, signal: AbortSignal): Promise<T> {
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
        const found = read();
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
