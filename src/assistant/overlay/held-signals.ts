/**
 * Signals of queries whose ids are on their way to whoever asked: what is told of a query before the answer to its
 * Ask has been handed to the bus waits here, and goes out right behind it, in its order.
 */
export class HeldSignals {
  readonly #held = new Map<number, (() => void)[]>();

  hold(queryId: number): void {
    this.#held.set(queryId, []);
  }

  release(queryId: number): void {
    const signals = this.#held.get(queryId) ?? [];
    this.#held.delete(queryId);
    for (const send of signals) send();
  }

  send(queryId: number, send: () => void): void {
    const held = this.#held.get(queryId);
    if (held) held.push(send);
    else send();
  }
}
