import { createHash } from "node:crypto";
import { findCondition } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { WebhookEvent } from "../../resources/webhook-events.ts";
import type { EventRecord } from "../../store/store.ts";

/**
 * A notice for the receivers of webhooks. The notices about Apps are computed from their statuses instead of from
 * events, so that a notice that was lost in a crash is found again; `ReportedState` ensures that each notice is sent
 * only once. Only the notice of a deletion is computed from its event, because a deleted App has no status.
 */
export interface Notice {
  /** The events of the notice, the most specific one first. A webhook gets the first one that it subscribes to. */
  readonly events: readonly WebhookEvent[];
  readonly message: string;
  readonly generation: number | null;
}

/** The notices of one App that have been enqueued already. */
export interface ReportedState {
  readonly uid: string;
  /** The version whose deployment was reported last; null if there is none, or if it has failed since. */
  readonly deployed: string | null;
  /** The generation and the reason of the failure that was reported last. */
  readonly failed: string | null;
  /** The last generation for which a revert to an earlier revision was reported. */
  readonly reverted: number | null;
  readonly isUnhealthy: boolean;
}

export interface AppNotices {
  readonly notices: readonly Notice[];
  readonly reported: ReportedState;
  /** The time, in epoch milliseconds, when the notices have to be computed again without a change; null means never. */
  readonly recheckAt: number | null;
}

/**
 * Lost health is reported after this time. A container that ends and is restarted is usually healthy again much
 * earlier.
 */
export const HEALTH_LOST_AFTER_MS = 10_000;

/** The reasons of a stalled App and of a revert that mean a failed build. */
const buildFailureReasons: ReadonlySet<string> = new Set([
  "BuildFailed",
  "BuildTimedOut",
  "BuildCancelled",
  "BuildsNotAvailable",
  "SourceInvalid",
  "SourceChanged",
  "GitDenied",
  "GitNotFound",
]);

export function computeAppNotices(
  app: Resource<"App">,
  before: ReportedState | undefined,
  nowMs: number,
): AppNotices {
  const { uid, generation, deletionTimestamp } = app.metadata;
  const known =
    before?.uid === uid
      ? before
      : { uid, deployed: null, failed: null, reverted: null, isUnhealthy: false };
  const { status } = app;
  if (!status || deletionTimestamp !== null)
    return { notices: [], reported: known, recheckAt: null };
  let reported = known;
  const notices: Notice[] = [];
  const { quarantine, stable } = status.memory;
  const ready = findCondition(status.conditions, "Ready");
  const isReady = ready?.status === "True" && ready.observedGeneration === generation;

  if (quarantine && quarantine.generation !== reported.reverted) {
    const message = `generation ${quarantine.generation} failed (${quarantine.message}); back to revision ${quarantine.revertedTo}`;
    const events: WebhookEvent[] = buildFailureReasons.has(quarantine.reason)
      ? ["build_failed", "reverted", "failed"]
      : ["reverted", "failed"];
    notices.push({ events, message, generation: quarantine.generation });
    reported = { ...reported, reverted: quarantine.generation, deployed: null };
  }
  const stalled = findCondition(status.conditions, "Stalled");
  if (stalled?.status === "True" && stalled.observedGeneration === generation) {
    const { reason, message } = stalled;
    const isBuild = buildFailureReasons.has(reason);
    // Several commits of a branch can fail for the same generation. Their messages differ, so each failure is reported.
    const failed = isBuild
      ? `${generation} ${reason} ${digest(message)}`
      : `${generation} ${reason}`;
    const events: WebhookEvent[] = isBuild ? ["build_failed", "failed"] : ["failed"];
    if (failed !== reported.failed) notices.push({ events, message, generation });
    reported = { ...reported, failed };
  }
  if (isReady) reported = { ...reported, failed: null };
  // Only a version that was Ready for long enough counts as deployed, because some versions answer one probe and then
  // crash.
  if (isReady && stable !== null && stable.hash !== reported.deployed) {
    const revision = status.revisions.applied ?? status.revisions.attempted;
    const which = revision === null ? "" : `, revision ${revision},`;
    const message = `generation ${generation}${which} is running and healthy`;
    notices.push({ events: ["deployed"], message, generation });
    reported = { ...reported, deployed: stable.hash };
  }
  if (isReady && reported.isUnhealthy) {
    notices.push({ events: ["recovered"], message: "running and healthy again", generation });
    reported = { ...reported, isUnhealthy: false };
  }
  // A user who stops or suspends an app needs no notice of it.
  if (app.spec.running === false || app.spec.suspend === true)
    return { notices, reported: { ...reported, isUnhealthy: false }, recheckAt: null };
  const lostSince = findHealthLostSince(app);
  if (lostSince === undefined || reported.isUnhealthy)
    return { notices, reported: reported, recheckAt: null };
  const isDue = nowMs - lostSince >= HEALTH_LOST_AFTER_MS;
  if (!isDue) return { notices, reported: reported, recheckAt: lostSince + HEALTH_LOST_AFTER_MS };
  notices.push({ events: ["unhealthy"], message: ready?.message ?? "not healthy", generation });
  return { notices, reported: { ...reported, isUnhealthy: true }, recheckAt: null };
}

/**
 * Returns the time, in epoch milliseconds, since which an App has fewer healthy containers than before, if it had been
 * Ready for long enough. Undefined if the App is healthy, has not been observed, or is being updated.
 */
function findHealthLostSince({ status, spec }: Resource<"App">): number | undefined {
  const ready = findCondition(status?.conditions ?? [], "Ready");
  if (!status || ready?.status !== "False" || status.memory.quarantine) return undefined;
  if (findCondition(status.conditions, "Accepted")?.status === "False") return undefined;
  const { stable, attempt, stalled } = status.memory;
  if (!stable || (attempt !== null && attempt.hash !== stable.hash)) return undefined;
  if (attempt === null && stalled === null) return undefined;
  // A stopped app is not Ready, so its next start does not count as a loss of health.
  const notReadySince = Date.parse(ready.lastTransitionTime);
  if (attempt !== null && notReadySince < (attempt.beganAt ?? 0)) return undefined;
  const wanted = Math.min(stable.replicas, spec.replicas ?? 1);
  const healthy = status.containers.filter((container) => container.healthy === true).length;
  return healthy < wanted ? notReadySince : undefined;
}

/**
 * Returns a notice for the event Pruned, because a pruned resource has no status that reports its deletion. Returns
 * none for other events.
 */
export function computeEventNotices(event: EventRecord): readonly Notice[] {
  const { kind, name, reason, message } = event;
  if (reason !== "Pruned" || kind === null) return [];
  return [{ events: ["pruned"], message: `${kind} ${name}: ${message}`, generation: null }];
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
