import type { ProviderConnection } from "./provider-connection.ts";

/** Of one provider; a person and their programs seldom ask more at a time. */
const IDLE_PER_PROVIDER_MAX = 8;

/** Connections without a request, for the next one to the same place. */
export class IdleConnections {
  readonly #idle = new Map<string, ProviderConnection[]>();

  /** The one that was used last, whose other side has had the least time to close it. */
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

  /** It has ended by itself. */
  drop(poolKey: string, connection: ProviderConnection): void {
    const connections = this.#idle.get(poolKey);
    const at = connections?.indexOf(connection) ?? -1;
    if (!connections || at === -1) return;
    connections.splice(at, 1);
    if (connections.length === 0) this.#idle.delete(poolKey);
    void connection.destroy();
  }

  /** Ends those of every place that fits. */
  async end(fits: (place: string) => boolean): Promise<void> {
    const places = [...this.#idle].filter(([place]) => fits(place));
    for (const [place] of places) this.#idle.delete(place);
    await Promise.all(places.flatMap(([, found]) => found.map((one) => one.destroy())));
  }
}
