/** A frontend that cancels late is at most this many queries behind. */
const QUERIES_MAX = 1_024;

/** The connections of the last ended queries. Cancelling an ended query of one's own is not an error. */
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

  /** The bus never reuses a connection name. */
  forget(connection: string): void {
    for (const [queryId, owner] of this.#owners)
      if (owner === connection) this.#owners.delete(queryId);
  }
}
