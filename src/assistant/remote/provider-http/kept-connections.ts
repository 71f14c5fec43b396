import type { Connection } from "./connection.ts";

/** Of one provider; a person and their programs seldom ask more at a time. */
const KEPT_MAX_EACH = 8;

/** Connections without a request, for the next one to the same place. */
export class KeptConnections {
  readonly #kept = new Map<string, Connection[]>();

  /** The one that was used last, whose other side has had the least time to close it. */
  take(place: string): Connection | undefined {
    const connections = this.#kept.get(place);
    const taken = connections?.pop();
    if (connections?.length === 0) this.#kept.delete(place);
    return taken;
  }

  put(place: string, connection: Connection): void {
    const connections = this.#kept.get(place) ?? [];
    this.#kept.set(place, connections);
    connections.push(connection);
    if (connections.length > KEPT_MAX_EACH) void connections.shift()?.destroy();
  }

  /** It has ended by itself. */
  drop(place: string, connection: Connection): void {
    const connections = this.#kept.get(place);
    const at = connections?.indexOf(connection) ?? -1;
    if (!connections || at === -1) return;
    connections.splice(at, 1);
    if (connections.length === 0) this.#kept.delete(place);
    void connection.destroy();
  }

  /** Ends those of every place that fits. */
  async end(fits: (place: string) => boolean): Promise<void> {
    const places = [...this.#kept].filter(([place]) => fits(place));
    for (const [place] of places) this.#kept.delete(place);
    await Promise.all(places.flatMap(([, found]) => found.map((one) => one.destroy())));
  }
}
