/**
 * The number of ended queries that are remembered. A frontend that cancels a query which ended earlier gets an error.
 */
const QUERIES_MAX = 1_024;

/**
 * Remembers which connections sent the last ended queries: cancelling a query that has ended is not an error for the
 * connection that sent it.
 */
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

  /**
   * Forgets the queries of a closed connection, which no one can cancel any longer: the bus never reuses a connection
   * name.
   */
  forget(connection: string): void {
    for (const [queryId, owner] of this.#owners)
      if (owner === connection) this.#owners.delete(queryId);
  }
}
