import { AssistantError } from "../assistant-error.ts";
import { type Caller, ownerKey, sandboxedApp } from "../caller.ts";
import type { OverlayLimits } from "./overlay-dependencies.ts";

/**
 * Throws `limits_exceeded` if there is no capacity for another query of this caller. `queries` are the callers of the
 * queries that have not ended. Some capacity is reserved for callers without a query. Some is reserved for the user's
 * own programs, so that sandboxed apps can use only the rest, and one sandboxed app only a part of it.
 */
export function checkQueryCapacity(
  queries: readonly Caller[],
  caller: Caller,
  limits: OverlayLimits,
): void {
  const { running, waiting, reservedForNew, perSandboxedApp, reservedForPerson } = limits;
  const capacity = running + waiting;
  const app = sandboxedApp(caller);
  if (app !== undefined) {
    const sandboxed = queries.map(sandboxedApp).filter((other) => other !== undefined);
    if (sandboxed.filter((other) => other === app).length >= perSandboxedApp)
      throw new AssistantError(
        "limits_exceeded",
        `${app} has ${perSandboxedApp} queries, which is its limit: wait for one of them to end`,
      );
    const sandboxedMax = capacity - reservedForPerson.queries;
    if (sandboxed.length >= sandboxedMax)
      throw new AssistantError(
        "limits_exceeded",
        `sandboxed apps have ${sandboxedMax} queries, which is their limit: wait for one of them to end`,
      );
  }
  if (queries.length < capacity) return;
  const owner = ownerKey(caller);
  const isNew = queries.every((other) => ownerKey(other) !== owner);
  if (isNew && queries.length < capacity + reservedForNew) return;
  throw new AssistantError(
    "limits_exceeded",
    `${running} queries are running and ${waiting} wait: wait for one of them to end`,
  );
}
