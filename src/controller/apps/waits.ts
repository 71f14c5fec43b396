import type { ReconcilerMemory } from "../../resources/status.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired.ts";
import * as remember from "./memory.ts";
import type { Plan } from "./plan/model.ts";

const UNFINISHED_RETRY_MS = 250;
/** While the engine takes a container away, or starts it again by itself. */
const ENGINE_BUSY_RETRY_MS = 500;
/** Progress of a pull or a build is shown about once a second. */
const PROGRESS_MS = 1_000;

/** In how many milliseconds an App is to be looked at again though nothing happens; null: at the next resync. */
export function nextLook(input: {
  readonly desired: DesiredApp;
  readonly nowMs: number;
  readonly isFinished: boolean;
  readonly isDone: boolean;
  readonly isStalled: boolean;
  readonly plan: Plan | null;
  readonly memory: ReconcilerMemory;
  readonly containers: readonly ObservedContainer[];
  readonly isObtaining: boolean;
}): number | null {
  const { desired, nowMs, isDone, plan, memory, containers } = input;
  const waits: number[] = input.isFinished ? [] : [nowMs + UNFINISHED_RETRY_MS];
  if (plan?.restartAtMs) waits.push(plan.restartAtMs);
  if (plan?.lookAgainAtMs) waits.push(plan.lookAgainAtMs);
  if (containers.some(({ state }) => state === "removing" || state === "restarting"))
    waits.push(nowMs + ENGINE_BUSY_RETRY_MS);
  const readySince = memory.attempt?.readySince ?? null;
  if (isDone && readySince !== null && !remember.isStable(memory, desired))
    waits.push(readySince + remember.SOAK_MS);
  const deadline = isDone || input.isStalled ? null : remember.deadlineMs(memory, desired);
  if (deadline !== null) waits.push(deadline + 1);
  if (input.isObtaining) waits.push(nowMs + PROGRESS_MS);
  return waits.length === 0 ? null : Math.max(1, Math.min(...waits) - nowMs);
}
