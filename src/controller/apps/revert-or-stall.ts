import type { Logger } from "../../base/logger.ts";
import type { ReconcileState } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Revision, Store } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import type { ObservedContainer, WorkloadRuntime } from "../runtime/port.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import { findMissingSecret, quarantineDigest } from "./app-inputs.ts";
import type { DesiredApp } from "./desired-app.ts";
import { revisionHash } from "./revision-hash.ts";

/** The number of log lines in the message of a failure. */
const LAST_LINES = 5;
const LINE_LENGTH_MAX = 200;

/**
 * Handles a version that cannot be started, or whose containers end too often. Reverts to another version, the last one
 * that was Ready, if there is one and the spec allows a revert; otherwise stalls the App until an input changes.
 * Reverts at most once for one generation, and never to the spec that has failed. If the version after a revert fails
 * too, the App stalls.
 */
export function revertOrStall(
  store: Store,
  resource: Resource<"App">,
  desired: DesiredApp,
  memory: ReconcileState,
  failure: Reason,
  {
    serving,
    inputs,
  }: {
    /** The revision to which the App's requests are routed; undefined if it is unknown. */
    readonly serving: Revision | undefined;
    /**
     * A digest of the App's spec, Secrets and source revision (see inputsDigest). A stall ends when the digest changes.
     */
    readonly inputs: string;
  },
): ReconcileState {
  const { name, generation } = resource.metadata;
  const current = revisionHash(resource.spec, desired.image, desired.imageId);
  const attempted = store.revisions.list(name).find((revision) => revision.specHash === current);
  const good = findLastGoodRevision(store, name, memory);
  const target = findRevertTarget(store, resource, desired, memory, serving);
  if (target) {
    if (attempted) store.revisions.mark(name, attempted.number, "quarantined", failure.message);
    store.events.record({
      kind: "App",
      name,
      type: "Warning",
      reason: "Reverted",
      message: `generation ${generation} failed (${failure.message}); back to revision ${target.number}`,
    });
    return {
      ...memory,
      restarts: [],
      attempt: null,
      quarantine: {
        inputs: quarantineDigest(store, desired, failure.reason),
        generation,
        revertedTo: target.number,
        reason: failure.reason,
        message: failure.message,
      },
    };
  }
  store.events.record({
    kind: "App",
    name,
    type: "Warning",
    reason: failure.reason,
    message: failure.message,
  });
  // A version that was stable before is not quarantined, because its failure must have a cause outside of the version.
  if (attempted && memory.quarantine === null && attempted.number !== good?.number)
    store.revisions.mark(name, attempted.number, "quarantined", failure.message);
  return { ...memory, stalled: { inputs, ...failure } };
}

/**
 * Returns the revision to revert to if `desired` fails: the revision that receives the App's requests, otherwise the
 * last stable one. Undefined if there is none, or if the spec turns reverts off.
 */
export function findRevertTarget(
  store: Store,
  resource: Resource<"App">,
  desired: DesiredApp,
  memory: ReconcileState,
  serving: Revision | undefined,
): Revision | undefined {
  // A one-shot has nothing that could serve again: an earlier version has run to its end.
  if (desired.app.oneShot) return undefined;
  if (!desired.app.rollout.autoRevert || memory.quarantine !== null) return undefined;
  if (memory.stable?.hash === desired.hash) return undefined;
  const good = serving ?? findLastGoodRevision(store, resource.metadata.name, memory);
  const isAnother =
    good !== undefined &&
    good.specHash !== revisionHash(resource.spec, desired.image, desired.imageId);
  return isAnother && findMissingSecret(store, good.spec) === undefined ? good : undefined;
}

/** Returns the newest revision that has been stable, which means Ready for MIN_READY_MS. */
export function findLastGoodRevision(
  store: Store,
  app: string,
  { good }: ReconcileState,
): Revision | undefined {
  const known = good === null ? undefined : store.revisions.get(app, good);
  return known ?? store.revisions.list(app).find((revision) => revision.state === "stable");
}

/** Returns the end of a container's log for a message; "" if there is none. */
export async function readLastLogLines(
  { runtime, logger }: { readonly runtime: WorkloadRuntime; readonly logger: Logger },
  container: ObservedContainer,
  mask: SecretMask,
  signal: AbortSignal,
): Promise<string> {
  const lines: string[] = [];
  try {
    for await (const line of runtime.logs(
      container.id,
      { tail: LAST_LINES, follow: false },
      signal,
    )) {
      const text = mask(line.message);
      lines.push(text.length > LINE_LENGTH_MAX ? `${text.slice(0, LINE_LENGTH_MAX)}…` : text);
    }
  } catch (error) {
    if (signal.aborted) throw error;
    logger.debug(
      { container: container.name, err: error },
      "the log of a failed container could not be read",
    );
  }
  return lines.length === 0 ? "" : `; last lines: ${lines.join(" | ")}`;
}

/** Returns text such as "; port 80 was expected, but the app listens on 8080"; "" if the ports match or are unknown. */
export async function describePortMismatch(
  runtime: WorkloadRuntime,
  container: ObservedContainer,
  expected: number,
  signal: AbortSignal,
): Promise<string> {
  const ports = await runtime.listeningPorts(container.id, signal).catch(() => undefined);
  if (signal.aborted || ports === undefined || ports.includes(expected)) return "";
  if (ports.length === 0)
    return `; port ${expected} was expected, but nothing listens in the container`;
  return `; port ${expected} was expected, but the app listens on ${ports.join(", ")}: set spec.port`;
}
