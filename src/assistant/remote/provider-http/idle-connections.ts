import type { ProviderConnection } from "./provider-connection.ts";

/**
 * The largest number of idle connections per provider. A user and their programs rarely send more requests at the same
 * time.
 */
const IDLE_PER_PROVIDER_MAX = 8;

/** Connections without a request, for reuse by the next request to the same destination. */
export class IdleConnections {
  readonly #idle = new Map<string, ProviderConnection[]>();

  /**
   * Removes and returns the most recently used connection to a destination, because the server is least likely to have
   * closed that one.
   */
  take(poolKey: string): ProviderConnection | undefined {
    const connections = this.#idle.get(poolKey);
    const taken = connections?.pop();
    if (connections?.length === 0) this.#idle.delete(poolKey);
    return taken;
  }

  put(poolKey: string, connection: ProviderConnection): void {
    const connections = this.#idle.get(poolKey) ?? [];
    this.#idle.set(poolKey, connections);
    connections.push(connection);
    if (connections.length > IDLE_PER_PROVIDER_MAX) void connections.shift()?.destroy();
  }

  /** Forgets a connection that has been closed. */
  drop(poolKey: string, connection: ProviderConnection): void {
    const connections = this.#idle.get(poolKey);
    const at = connections?.indexOf(connection) ?? -1;
    if (!connections || at === -1) return;
    connections.splice(at, 1);
    if (connections.length === 0) this.#idle.delete(poolKey);
    void connection.destroy();
  }

  /** Closes the connections to every destination that `fits` accepts. */
  async end(fits: (place: string) => boolean): Promise<void> {
    const places = [...this.#idle].filter(([place]) => fits(place));
    for (const [place] of places) this.#idle.delete(place);
    await Promise.all(places.flatMap(([, found]) => found.map((one) => one.destroy())));
  }
}
