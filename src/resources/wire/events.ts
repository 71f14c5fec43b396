import { type Static, Type } from "typebox";
import { kinds } from "../kinds.ts";
import {
  closed,
  FieldChangeView,
  NullableInteger,
  NullableString,
  OneOf,
  Timestamp,
} from "./wire-schema.ts";

const NullableKind = Type.Unsafe<(typeof kinds)[number] | null>({
  type: ["string", "null"],
  description: "kind of the resource; null for events of Berth itself",
});

export const EventView = Type.Object(
  {
    id: Type.Integer(),
    kind: NullableKind,
    name: Type.String(),
    type: OneOf(["Normal", "Warning"]),
    reason: Type.String(),
    message: Type.String(),
    count: Type.Integer(),
    first_time: Timestamp,
    last_time: Timestamp,
  },
  closed,
);
export type EventView = Static<typeof EventView>;

export const EventList = Type.Object(
  {
    events: Type.Array(EventView),
    total: Type.Integer({ description: "number of events in this response" }),
  },
  closed,
);
export type EventList = Static<typeof EventList>;

const changeTypes = ["added", "modified", "deleted", "status", "event"] as const;

/** The data of a server-sent event of `GET /api/events`. The event's `id` equals `sequence`. */
export const ChangeView = Type.Object(
  {
    sequence: Type.Integer(),
    type: OneOf(changeTypes),
    kind: NullableKind,
    name: Type.String(),
    generation: Type.Integer(),
    time: Timestamp,
    event: Type.Optional(EventView),
  },
  closed,
);
export type ChangeView = Static<typeof ChangeView>;

export const AuditView = Type.Object(
  {
    id: Type.Integer(),
    time: Timestamp,
    actor: Type.String(),
    request_id: NullableString,
    action: Type.String(),
    kind: NullableKind,
    name: Type.String(),
    changes: Type.Array(FieldChangeView),
  },
  closed,
);
export type AuditView = Static<typeof AuditView>;

export const AuditList = Type.Object(
  {
    entries: Type.Array(AuditView),
    next_before: Type.Unsafe<number | null>({
      ...NullableInteger,
      description: "value of `before` in the request for the next page; null on the last page",
    }),
  },
  closed,
);
export type AuditList = Static<typeof AuditList>;
