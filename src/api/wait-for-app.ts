import type { Clock } from "../base/clock.ts";
import { findCondition } from "../resources/app-status.ts";
import type { Resource } from "../resources/resource.ts";
import type { Store } from "../store/store.ts";
import type { ChangeHub } from "./change-hub.ts";
import { type TimedOut, waitForChange } from "./wait-for-change.ts";

export type AppWaitOutcome =
  | { readonly type: "ready" }
  | { readonly type: "failed"; readonly message: string }
  | { readonly type: "deleted" }
  | TimedOut;

export interface AppWaitTarget {
  readonly name: string;
  readonly uid: string;
  /**
   * The generation of the App that the request wrote. The wait ends only with an outcome of this generation or of a
   * newer one.
   */
  readonly generation: number;
  readonly until: "ready" | "deleted";
}

/** Waits for an app without polling: it checks after each change of that app in the store. */
export function waitForApp(
  { store, hub, clock }: { store: Pick<Store, "get">; hub: ChangeHub; clock: Clock },
  target: AppWaitTarget,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<AppWaitOutcome> {
  const observe = () => assessApp(store.get("App", target.name), target);
  return waitForChange(
    { hub, clock },
    { kind: "App", name: target.name, observe },
    timeoutMs,
    signal,
  );
}

/**
 * Returns the outcome of the wait for `target`, derived from the app's status; undefined while the wait must go on.
 * Pure.
 */
export function assessApp(
  app: Resource<"App"> | undefined,
  target: AppWaitTarget,
): AppWaitOutcome | undefined {
  if (app === undefined || app.metadata.uid !== target.uid) return { type: "deleted" };
  if (target.until === "deleted" || app.metadata.deletionTimestamp !== null) return undefined;
  const status = app.status;
  if (status === null || status.observedGeneration < target.generation) return undefined;
  const observed = (type: "Ready" | "Stalled") => {
    const condition = findCondition(status.conditions, type);
    return condition && condition.observedGeneration >= target.generation ? condition : undefined;
  };
  const ready = observed("Ready");
  if (ready?.status === "True") return { type: "ready" };
  const stalled = observed("Stalled");
  if (stalled?.status === "True") return { type: "failed", message: stalled.message };
  // An app without an image counts as failed, because it waits for a deploy, which would create another generation.
  if (ready?.reason === "Reverted" || ready?.reason === "NoImage" || status.phase === "failed") {
    return { type: "failed", message: ready?.message ?? "the app has failed" };
  }
  // A suspended or stopped app never becomes Ready, but has reached its desired state.
  if (app.spec.suspend === true) return { type: "ready" };
  if (app.spec.running === false && status.phase === "stopped") return { type: "ready" };
  return undefined;
}
