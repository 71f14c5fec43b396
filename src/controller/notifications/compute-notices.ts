import { createHash } from "node:crypto";
import { findCondition } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { WebhookEvent } from "../../resources/webhook-events.ts";
import type { EventRecord } from "../../store/store.ts";

/**
 * What receivers are told of, as pure functions of what the store says. Of Apps the status decides,
 * and not events: whatever a crash cut off is found by looking again, and `Told` keeps everything from
 * being told twice. Only what leaves no status behind (a deletion) is told from its event.
 */
export interface Notice {
  /** The most specific first: a webhook gets the first one that it listens to. */
  readonly events: readonly WebhookEvent[];
  readonly message: string;
  readonly generation: number | null;
}

/** What receivers have been told of one App. */
export interface ReportedState {
  readonly uid: string;
  /** The version that was last said to be deployed; null: none, or it failed since. */
  readonly deployed: string | null;
  /** Generation and reason of the last failure. */
  readonly failed: string | null;
  /** The generation that was last reverted. */
  readonly reverted: number | null;
  readonly isUnhealthy: boolean;
}

export interface AppNotices {
  readonly notices: readonly Notice[];
  readonly reported: ReportedState;
  /** When to look again, in epoch milliseconds, though nothing changes; null: no need to. */
  readonly recheckAt: number | null;
}

/** A container that ends and is started again is back well within this; nobody is woken for it. */
export const HEALTH_LOST_AFTER_MS = 10_000;

/** What no image comes of, among the reasons of a stalled App and of a revert. */
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
    // Each commit of a branch is built for the same generation: their failures differ in what they say.
    const failed = isBuild
      ? `${generation} ${reason} ${digest(message)}`
      : `${generation} ${reason}`;
    const events: WebhookEvent[] = isBuild ? ["build_failed", "failed"] : ["failed"];
    if (failed !== reported.failed) notices.push({ events, message, generation });
    reported = { ...reported, failed };
  }
  if (isReady) reported = { ...reported, failed: null };
  // Ready for long enough to count as good: what answers one probe and then ends was never deployed.
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
  // Whoever stops an app, or has Berth leave it alone, does not ask how it is.
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
 * Since when an App that was Ready for long enough to count as good has fewer healthy containers than
 * it had, in epoch milliseconds. Undefined for one that is as it should be, or not looked at, or is
 * becoming another version.
 */
function findHealthLostSince({ status, spec }: Resource<"App">): number | undefined {
  const ready = findCondition(status?.conditions ?? [], "Ready");
  if (!status || ready?.status !== "False" || status.memory.quarantine) return undefined;
  if (findCondition(status.conditions, "Accepted")?.status === "False") return undefined;
  const { stable, attempt, stalled } = status.memory;
  if (!stable || (attempt !== null && attempt.hash !== stable.hash)) return undefined;
  if (attempt === null && stalled === null) return undefined;
  const wanted = Math.min(stable.replicas, spec.replicas ?? 1);
  const healthy = status.containers.filter((container) => container.healthy === true).length;
  return healthy < wanted ? Date.parse(ready.lastTransitionTime) : undefined;
}

/** What an event tells that no status does. */
export function computeEventNotices(event: EventRecord): readonly Notice[] {
  const { kind, name, reason, message } = event;
  if (reason !== "Pruned" || kind === null) return [];
  return [{ events: ["pruned"], message: `${kind} ${name}: ${message}`, generation: null }];
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
