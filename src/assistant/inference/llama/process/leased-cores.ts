import type { Cores, Priority } from "../../engine.ts";
import type { FromChild } from "./wire.ts";

/**
 * The machine's cores as the model's process sees them. Once they were lent they stay here, idle or
 * not, until another model wants them: a model that is alone asks once and then never again.
 */
export class LeasedCores implements Cores {
  readonly #send: (message: FromChild) => void;
  readonly #waiting = new Map<number, () => void>();
  readonly #listeners = new Set<(contested: boolean) => void>();
  #nextId = 0;
  #isLent = false;
  #isComputing = false;
  #isContested = false;

  constructor(send: (message: FromChild) => void) {
    this.#send = send;
  }

  hold(priority: Priority, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#isLent && !this.#isContested) {
      this.#isComputing = true;
      return Promise.resolve();
    }
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        if (!this.#waiting.delete(id)) return;
        this.#send({ type: "unhold", id });
        reject(signal.reason);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.set(id, () => {
        signal.removeEventListener("abort", onAbort);
        this.#isComputing = true;
        resolve();
      });
      this.#send({ type: "hold", id, priority });
    });
  }

  release(): void {
    this.#isComputing = false;
    if (this.#isContested) this.#giveBack();
  }

  onContest(listener: (contested: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The parent's answer to a `hold`. */
  granted(id: number): void {
    const grant = this.#waiting.get(id);
    this.#isLent = true;
    if (grant) {
      this.#waiting.delete(id);
      grant();
    } else if (this.#waiting.size === 0 && !this.#isComputing) {
      // Taken back while the answer was on its way: whoever waits elsewhere can have them.
      this.#giveBack();
    }
  }

  contested(isContested: boolean): void {
    this.#isContested = isContested;
    if (isContested && !this.#isComputing && this.#waiting.size === 0) this.#giveBack();
    for (const listener of this.#listeners) listener(isContested);
  }

  #giveBack(): void {
    if (!this.#isLent) return;
    // Whether they are contested is told anew when it changes, and stays as it was told until then.
    this.#isLent = false;
    this.#send({ type: "release" });
  }
}
