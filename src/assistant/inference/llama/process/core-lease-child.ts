import type { CoreLease, RequestPriority } from "../../inference-engine.ts";
import type { FromChild } from "./ipc.ts";

/**
 * The machine's cores as the model's process sees them. Once they were lent they stay here, idle or
 * not, until another model wants them: a model that is alone asks once and then never again.
 */
export class CoreLeaseChild implements CoreLease {
  readonly #send: (message: FromChild) => void;
  readonly #waiting = new Map<number, () => void>();
  readonly #listeners = new Set<(contested: boolean) => void>();
  #nextId = 0;
  #isGranted = false;
  #isComputing = false;
  #isContested = false;

  constructor(send: (message: FromChild) => void) {
    this.#send = send;
  }

  hold(priority: RequestPriority, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#isGranted && !this.#isContested) {
      this.#isComputing = true;
      return Promise.resolve();
    }
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        if (!this.#waiting.delete(id)) return;
        this.#send({ type: "cancel-hold", id });
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
    if (this.#isContested) this.#returnLease();
  }

  onContest(listener: (contested: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The parent's answer to a `hold`. */
  onGranted(id: number): void {
    const grant = this.#waiting.get(id);
    this.#isGranted = true;
    if (grant) {
      this.#waiting.delete(id);
      grant();
    } else if (this.#waiting.size === 0 && !this.#isComputing) {
      // Taken back while the answer was on its way: whoever waits elsewhere can have them.
      this.#returnLease();
    }
  }

  setContested(isContested: boolean): void {
    this.#isContested = isContested;
    if (isContested && !this.#isComputing && this.#waiting.size === 0) this.#returnLease();
    for (const listener of this.#listeners) listener(isContested);
  }

  #returnLease(): void {
    if (!this.#isGranted) return;
    // Whether they are contested is told anew when it changes, and stays as it was told until then.
    this.#isGranted = false;
    this.#send({ type: "release" });
  }
}
