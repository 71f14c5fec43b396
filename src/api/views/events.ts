import type { AuditView, ChangeView, EventView } from "../../resources/wire/events.ts";
import type { AuditEntry, EventRecord, StoreChange } from "../../store/store.ts";
import { fieldChangeView } from "./plans.ts";

export function eventView(event: EventRecord): EventView {
  return {
    id: event.id,
    kind: event.kind,
    name: event.name,
    type: event.type,
    reason: event.reason,
    message: event.message,
    count: event.count,
    first_time: event.firstTime,
    last_time: event.lastTime,
  };
}

export function changeView(change: StoreChange): ChangeView {
  return {
    sequence: change.sequence,
    type: change.type,
    kind: change.kind,
    name: change.name,
    generation: change.generation,
    time: change.time,
    ...(change.event === undefined ? {} : { event: eventView(change.event) }),
  };
}

export function auditView(entry: AuditEntry): AuditView {
  return {
    id: entry.id,
    time: entry.time,
    actor: entry.actor,
    request_id: entry.requestId,
    action: entry.action,
    kind: entry.kind,
    name: entry.name,
    changes: entry.changes.map((change) => fieldChangeView(change)),
  };
}
