/**
 * How long a call may take after a rejection that nothing handled, in milliseconds. The rejection may have another
 * cause than the call, which then still settles.
 */
const GRACE_MS = 1_000;

/**
 * Lets calls of node-llama-cpp reject that would never settle. If a token cannot be sampled, because its grammar accepts
 * none, the library rejects a promise for which nothing waits, and the decoding step of all streams never ends.
 */
export class LostRejections {
  #rejectCall: (error: unknown) => void = () => {};

  /** Settles like `call`, or rejects soon after `report`. Only one call may be in progress. */
  guard<T>(call: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#rejectCall = reject;
      call.then(resolve, reject);
    });
  }

  /** Reports a rejection of the process that nothing handled. */
  report(error: unknown): void {
    const rejectCall = this.#rejectCall;
    setTimeout(() => rejectCall(error), GRACE_MS).unref();
  }
}
