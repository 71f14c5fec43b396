import type { ReconcileState } from "../../resources/app-status.ts";
import type { Revision } from "../../store/store.ts";
import type { DesiredApp } from "./desired-app.ts";
import * as reconcileState from "./reconcile-state.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

/**
 * Records since when the version is Ready. After MIN_READY_MS without a break it becomes the version to revert to.
 */
export function noteReady(
  { store, clock }: Pick<ReconcilerContext, "store" | "clock">,
  memory: ReconcileState,
  {
    desired,
    revision,
    isComplete,
  }: {
    readonly desired: DesiredApp;
    readonly revision: Revision | undefined;
    readonly isComplete: boolean;
  },
): ReconcileState {
  if (!isComplete) return reconcileState.noteReadySince(memory, null);
  const known = memory.attempt?.readySince ?? null;
  const readySince = known ?? clock.now();
  const noted = reconcileState.noteServed(
    reconcileState.noteReadySince(memory, readySince),
    desired.hash,
    revision?.number,
  );
  if (known === null) {
    const number = revision?.number ?? "?";
    const what = memory.quarantine
      ? `revision ${number}, which replaces the failed generation ${memory.quarantine.generation},`
      : `generation ${desired.generation}, revision ${number},`;
    const message = `${what} ${desired.app.oneShot ? "has run to its end" : "is running and healthy"}`;
    store.events.record({
      kind: "App",
      name: desired.name,
      type: "Normal",
      reason: "Ready",
      message,
    });
  }
  if (
    clock.now() - readySince < reconcileState.MIN_READY_MS ||
    reconcileState.isStable(noted, desired)
  )
    return noted;
  if (revision && revision.state !== "stable")
    store.revisions.mark(desired.name, revision.number, "stable", null);
  return {
    ...noted,
    stable: { hash: desired.hash, replicas: desired.containers.length },
    good: revision?.number ?? memory.good,
  };
}
