import type { CoreLease, RequestPriority } from "../../inference-engine.ts";
import type { FromChild } from "./ipc.ts";

/**
 * The child's side of the core lease, in the model's process. It keeps the lease, even while idle, until another model
 * wants the cores. So a model without competitors requests the cores only once.
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

  /** Handles the parent's answer to a `hold` message. */
  onGranted(id: number): void {
    const grant = this.#waiting.get(id);
    this.#isGranted = true;
    if (grant) {
      this.#waiting.delete(id);
      grant();
    } else if (this.#waiting.size === 0 && !this.#isComputing) {
      // The request was cancelled before the answer arrived, so the lease is not needed.
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
    // `#isContested` is not reset here: it keeps its value until the parent sends a change.
    this.#isGranted = false;
    this.#send({ type: "release" });
  }
}
