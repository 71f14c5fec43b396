import { BusCallError, type BusValue } from "./port.ts";

interface PendingCall {
  resolve(answer: readonly BusValue[]): void;
  reject(error: unknown): void;
}

/** The pending calls of a connection by serial number. Each call is settled exactly once. */
export class PendingCalls {
  readonly #calls = new Map<number, PendingCall & { readonly stop: () => void }>();

  add(
    serial: number,
    options: { readonly signal: AbortSignal; readonly timeoutMs: number },
    call: PendingCall,
  ): void {
    const onAbort = () => this.take(serial)?.reject(options.signal.reason);
    const timer = setTimeout(() => {
      const late = new BusCallError(
        "org.freedesktop.DBus.Error.NoReply",
        `no answer came within ${options.timeoutMs} ms`,
      );
      this.take(serial)?.reject(late);
    }, options.timeoutMs);
    const stop = () => {
      clearTimeout(timer);
      options.signal.removeEventListener("abort", onAbort);
    };
    options.signal.addEventListener("abort", onAbort, { once: true });
    this.#calls.set(serial, { ...call, stop });
  }

  /** Removes and returns a call; undefined if it is unknown or already settled. */
  take(serial: number | undefined): PendingCall | undefined {
    const found = serial === undefined ? undefined : this.#calls.get(serial);
    if (!found || serial === undefined) return undefined;
    this.#calls.delete(serial);
    found.stop();
    return found;
  }

  rejectAll(error: Error): void {
    for (const serial of this.#calls.keys()) this.take(serial)?.reject(error);
  }
}
