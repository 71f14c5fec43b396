/** A frontend that cancels late is at most this far behind. */
const QUERIES_MAX = 1_024;

/** Whose the last queries were that have ended: to cancel one of them is no mistake. */
export class EndedQueries {
  readonly #owners = new Map<number, string>();

  add(queryId: number, connection: string): void {
    this.#owners.set(queryId, connection);
    const [oldest] = this.#owners.keys();
    if (this.#owners.size > QUERIES_MAX && oldest !== undefined) this.#owners.delete(oldest);
  }

  findOwner(queryId: number): string | undefined {
    return this.#owners.get(queryId);
  }

  /** Nobody will ever be that connection again. */
  forget(connection: string): void {
    for (const [queryId, owner] of this.#owners)
      if (owner === connection) this.#owners.delete(queryId);
  }
}
