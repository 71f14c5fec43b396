import type { ReconcileState } from "../../resources/app-status.ts";
import { getSpecHash, isUp } from "./plan/observed-containers.ts";
import type { Operation } from "./plan/plan-types.ts";
import * as reconcileState from "./reconcile-state.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { findRevision } from "./revisions.ts";
import { beginWindow, openWindow } from "./rollout-window.ts";
import type { PlannedRun } from "./run-state.ts";

/**
 * Returns the state after an operation that directs the App's requests to the desired version: with the strategy
 * rolling, a change of the route, and with recreate, the stop of the old version. If another version served before, the
 * state contains an observation window for the desired version.
 */
export function noteSwitch(
  { store, clock }: Pick<ReconcilerContext, "store" | "clock">,
  state: PlannedRun,
  operation: Operation,
): ReconcileState {
  const { desired, resolved, memory, containers, route } = state;
  const revision = findRevision(store, desired.name, resolved.spec, desired)?.number;
  if (operation.type === "switchRoute" && operation.targets.length > 0) {
    const isDesired = operation.version === desired.hash;
    const served = reconcileState.noteServed(
      memory,
      operation.version,
      isDesired ? revision : undefined,
    );
    const isReplacement = route !== null && route.targets.length > 0;
    if (!isDesired || !isReplacement || desired.strategy.type !== "rolling") return served;
    if (route.version === desired.hash) return served;
    const previous = findPrevious(state, route.version, revision);
    if (previous === null) return served;
    const window = openWindow(desired.hash, previous);
    return { ...served, window: beginWindow(window, containers, clock.now()) };
  }
  if (operation.type !== "stopContainer" || desired.strategy.type !== "recreate") return memory;
  const stopped = containers.find(({ id }) => id === operation.id);
  const version = stopped && isUp(stopped) ? getSpecHash(stopped) : desired.hash;
  const isNoted = version === desired.hash || memory.window?.version === desired.hash;
  const previous =
    isNoted || !memory.served.includes(version) ? null : findPrevious(state, version, revision);
  return previous === null ? memory : { ...memory, window: openWindow(desired.hash, previous) };
}

/**
 * Returns the version to switch back to if the desired version, which replaces `serving`, fails. Returns null if the
 * desired version gets no observation window: it is the same revision in new containers, or the version that a failed
 * version was reverted to.
 */
function findPrevious(
  { desired, memory }: PlannedRun,
  serving: string,
  revision: number | undefined,
): string | null {
  const { window, servedRevisions, quarantine } = memory;
  if (desired.app.rollout.observeMs === 0 || !desired.app.running || quarantine !== null)
    return null;
  const replaced = servedRevisions.find(({ version }) => version === serving)?.number;
  if (replaced === undefined || replaced !== revision) return serving;
  // The version is restarted during its observation window, so Berth keeps the previous version to switch back to.
  return window?.outcome === "open" && window.version === serving ? window.previous : null;
}
