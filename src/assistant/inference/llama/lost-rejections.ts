/**
 * The time in milliseconds that a call may still take after some promise was rejected and no code handled the
 * rejection. The rejection may have nothing to do with the call, and then the call settles within this time.
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

  /** Reports that a promise of this process was rejected and that no code handled the rejection. */
  report(error: unknown): void {
    const rejectCall = this.#rejectCall;
    setTimeout(() => rejectCall(error), GRACE_MS).unref();
  }
}
