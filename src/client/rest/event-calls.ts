import type { Kind } from "../../resources/kinds.ts";
import type { AuditList, ChangeView, EventList } from "../../resources/wire/events.ts";
import { readEvents } from "./server-sent-events.ts";
import { decodeJson, type Transport } from "./transport.ts";

export interface EventFilter {
  readonly kind?: Kind;
  readonly name?: string;
  readonly limit?: number;
  readonly signal?: AbortSignal;
}

/**
 * A message of the server's event stream: a change of a resource, or an event. `reset` means that changes were lost:
 * the client must list the resources again and then continue.
 */
export type WatchEvent =
  | ({ readonly reset: false } & ChangeView)
  | { readonly reset: true; readonly sequence: number };

export function eventCalls(transport: Transport) {
  return {
    /** Returns events, newest first. */
    list: (filter: EventFilter = {}): Promise<EventList> =>
      transport.json("GET", "/api/events", {
        query: { format: "list", kind: filter.kind, name: filter.name, limit: filter.limit },
        signal: filter.signal,
      }),

    /**
     * Yields changes and events from now on, or after `lastEventId` (a sequence number), until the server ends the
     * stream. A call with the last sequence number continues without a gap.
     */
    async *watch(
      options: { kind?: Kind; name?: string; lastEventId?: number; signal?: AbortSignal } = {},
    ): AsyncGenerator<WatchEvent> {
      const response = await transport.send("GET", "/api/events", {
        query: { kind: options.kind, name: options.name },
        accept: "text/event-stream",
        ...(options.lastEventId === undefined
          ? {}
          : { headers: { "last-event-id": String(options.lastEventId) } }),
        signal: options.signal,
      });
      for await (const event of readEvents(response)) {
        if (event.event === "reset") yield { reset: true, sequence: Number(event.id ?? 0) };
        else yield { reset: false, ...decodeJson<ChangeView>(event.data) };
      }
    },

    audit: (filter: EventFilter & { before?: number } = {}): Promise<AuditList> =>
      transport.json("GET", "/api/audit", {
        query: { kind: filter.kind, name: filter.name, limit: filter.limit, before: filter.before },
        signal: filter.signal,
      }),
  };
}
