import { AssistantError } from "../assistant-error.ts";
import { type Caller, ownerKey, sandboxedApp } from "../caller.ts";
import type { OverlayLimits } from "./overlay-dependencies.ts";

/**
 * Throws `limits_exceeded` if there is no capacity for another query of this caller. `queries` are the callers of the
 * queries that have not ended. Some capacity is reserved for callers without a query, and some for the user's own
 * programs: sandboxed apps together cannot use it.
 */
export function checkQueryCapacity(
  queries: readonly Caller[],
  caller: Caller,
  limits: OverlayLimits,
): void {
  const { running, waiting, reservedForNew, reservedForPerson } = limits;
  const capacity = running + waiting;
  const sandboxedMax = capacity - reservedForPerson.queries;
  if (
    sandboxedApp(caller) !== undefined &&
    queries.filter((other) => sandboxedApp(other) !== undefined).length >= sandboxedMax
  )
    throw new AssistantError(
      "limits_exceeded",
      `sandboxed apps have ${sandboxedMax} queries, which is their limit: wait for one of them to end`,
    );
  if (queries.length < capacity) return;
  const owner = ownerKey(caller);
  const isNew = queries.every((other) => ownerKey(other) !== owner);
  if (isNew && queries.length < capacity + reservedForNew) return;
  throw new AssistantError(
    "limits_exceeded",
    `${running} queries are running and ${waiting} wait: wait for one of them to end`,
  );
}
