import { Type } from "typebox";
import { BerthError } from "../../base/errors.ts";
import { kinds } from "../../resources/kinds.ts";
import { AuditList, EventList } from "../../resources/wire/events.ts";
import { closed, OneOf } from "../../resources/wire/wire-schema.ts";
import type { StoreChange } from "../../store/store.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { EventStream, type ServerSentEvent, type StreamSlots } from "../event-stream.ts";
import { LimitField, responses, unserialized } from "../route-schemas.ts";
import { auditView, changeView, eventView } from "../views/events.ts";

const LIMIT_DEFAULT = 100;
/**
 * The maximum number of changes that are replayed to a client that reconnects. A client that missed more has to list
 * the resources again, which is cheaper than the replay.
 */
const RESUMED_CHANGES_MAX = 5_000;
const RESUME_PAGE_SIZE = 500;

const filterFields = {
  kind: Type.Optional(OneOf(kinds)),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 63 })),
  limit: LimitField,
};

const EventsQuery = Type.Object(
  {
    ...filterFields,
    format: Type.Optional(OneOf(["stream", "list"])),
    last_event_id: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: "the same as the header Last-Event-ID, for clients that cannot send it",
      }),
    ),
  },
  closed,
);

const AuditQuery = Type.Object(
  { ...filterFields, before: Type.Optional(Type.Integer({ minimum: 1 })) },
  closed,
);

interface ChangeFilter {
  readonly kind?: StoreChange["kind"];
  readonly name?: string;
}

export function eventRoutes(api: Api, context: ApiContext, slots: StreamSlots): void {
  const { store, hub, clock } = context;

  api.get(
    "/api/events",
    {
      config: { access: "read", isStream: true },
      schema: {
        summary: "Changes and events, as they happen",
        description:
          "Server-sent events, named by the type of the change; the id of an event is its sequence number. Last-Event-ID resumes; an event named reset means that changes were lost and the reader has to list the resources again. Returns a list with format=list or Accept: application/json.",
        tags: ["events"],
        produces: ["text/event-stream", "application/json"],
        querystring: EventsQuery,
        response: responses({ 200: unserialized(EventList) }),
      },
    },
    async (request, reply) => {
      const { format, limit = LIMIT_DEFAULT, kind, name } = request.query;
      const filter = {
        ...(kind === undefined ? {} : { kind }),
        ...(name === undefined ? {} : { name }),
      };
      const accept = request.headers.accept ?? "";
      if (format === "list" || (format === undefined && accept.startsWith("application/json"))) {
        const events = store.events.list({ ...filter, limit }).map((event) => eventView(event));
        return { events, total: events.length };
      }
      const since =
        parseLastEventId(request.headers["last-event-id"]) ?? request.query.last_event_id;
      const stream = new EventStream(clock, context.closing, slots.acquire());
      // Listing and subscribing happen in the same turn of the event loop, so no change is lost in between.
      if (since !== undefined) resume(stream, since, filter);
      const stop = hub.onChange((change) => {
        if (matchesFilter(change, filter)) stream.send(toServerSentEvent(change));
      });
      stream.signal.addEventListener("abort", stop, { once: true });
      if (stream.signal.aborted) stop();
      return stream.open(reply);
    },
  );

  api.get(
    "/api/audit",
    {
      config: { access: "admin" },
      schema: {
        summary: "List all writes with their authors, newest first",
        tags: ["events"],
        querystring: AuditQuery,
        response: responses({ 200: AuditList }),
      },
    },
    async (request) => {
      const { limit = LIMIT_DEFAULT, ...filter } = request.query;
      const entries = store.audit.list({ ...filter, limit }).map((entry) => auditView(entry));
      const last = entries.at(-1);
      return { entries, next_before: entries.length === limit && last ? last.id : null };
    },
  );

  function resume(stream: EventStream, since: number, filter: ChangeFilter): void {
    const isFar = store.lastSequence - since > RESUMED_CHANGES_MAX;
    let after = since;
    for (;;) {
      const changes = isFar ? undefined : store.changesSince(after, RESUME_PAGE_SIZE);
      if (changes === undefined) break;
      const last = changes.at(-1);
      for (const change of changes) {
        if (matchesFilter(change, filter)) stream.send(toServerSentEvent(change));
      }
      if (last === undefined) return;
      after = last.sequence;
    }
    const sequence = store.lastSequence;
    stream.send({ id: sequence, event: "reset", data: JSON.stringify({ sequence }) });
  }
}

function matchesFilter(change: StoreChange, filter: ChangeFilter): boolean {
  return (
    (filter.kind === undefined || change.kind === filter.kind) &&
    (filter.name === undefined || change.name === filter.name)
  );
}

/** Changes are frozen and shared by all streams, so each is serialized once. */
const serializedChanges = new WeakMap<StoreChange, ServerSentEvent>();

function toServerSentEvent(change: StoreChange): ServerSentEvent {
  const known = serializedChanges.get(change);
  if (known) return known;
  const event = {
    id: change.sequence,
    event: change.type,
    data: JSON.stringify(changeView(change)),
  };
  serializedChanges.set(change, event);
  return event;
}

function parseLastEventId(header: string | string[] | undefined): number | undefined {
  if (header === undefined || header === "") return undefined;
  const text = Array.isArray(header) ? (header[0] ?? "") : header;
  if (!/^[0-9]{1,15}$/.test(text)) {
    throw new BerthError("invalid_request", "Last-Event-ID is not the id of an event", {
      hint: "leave out Last-Event-ID to start from now",
    });
  }
  return Number(text);
}
