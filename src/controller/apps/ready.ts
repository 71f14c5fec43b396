import type { ReconcilerMemory } from "../../resources/status.ts";
import type { Revision } from "../../store/store.ts";
import type { ReconcilerContext } from "./context.ts";
import type { DesiredApp } from "./desired.ts";
import * as remember from "./memory.ts";

/** Notes since when the version is Ready; after SOAK_MS without a break it is one to come back to. */
export function noteReady(
  { store, clock }: Pick<ReconcilerContext, "store" | "clock">,
  memory: ReconcilerMemory,
  {
    desired,
    revision,
    isComplete,
  }: {
    readonly desired: DesiredApp;
    readonly revision: Revision | undefined;
    readonly isComplete: boolean;
  },
): ReconcilerMemory {
  if (!isComplete) return remember.noteReadySince(memory, null);
  const known = memory.attempt?.readySince ?? null;
  const readySince = known ?? clock.now();
  const noted = remember.noteServed(remember.noteReadySince(memory, readySince), desired.hash);
  if (known === null) {
    const number = revision?.number ?? "?";
    const what = memory.quarantine
      ? `revision ${number}, which is held since generation ${memory.quarantine.generation} failed,`
      : `generation ${desired.generation}, revision ${number},`;
    const message = `${what} is running and healthy`;
    store.events.record({
      kind: "App",
      name: desired.name,
      type: "Normal",
      reason: "Ready",
      message,
    });
  }
  if (clock.now() - readySince < remember.SOAK_MS || remember.isStable(noted, desired))
    return noted;
  if (revision && revision.state !== "stable")
    store.revisions.mark(desired.name, revision.number, "stable", null);
  return {
    ...noted,
    stable: { hash: desired.hash, replicas: desired.containers.length },
    good: revision?.number ?? memory.good,
  };
}
