import type { Logger } from "../../base/logger.ts";
import type { ReconcileState } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Revision, Store } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import type { ObservedContainer, WorkloadRuntime } from "../runtime/port.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import { findMissingSecret, quarantineDigest } from "./app-inputs.ts";
import { type DesiredApp, revisionHash } from "./desired-app.ts";

/** Log lines that go into the message of a failure. */
const LAST_LINES = 5;
const LINE_LENGTH_MAX = 200;

/**
 * What follows when a version cannot be brought up, or a container ends too often: back to the last
 * version that was Ready, where there is another one and the spec allows it, otherwise a stop until
 * a person changes something. Never back to the same spec, never twice for one generation; and where
 * what failed is itself the last good version, an older one would be no way back.
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
    /** The revision that has the App's requests, where that is known. */
    readonly serving: Revision | undefined;
    /** What a stall waits to see changed. */
    readonly inputs: string;
  },
): ReconcileState {
  const { name, generation } = resource.metadata;
  const current = revisionHash(resource.spec, desired.image);
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
  // A version that was good does not turn bad because something around it did.
  if (attempted && memory.quarantine === null && attempted.number !== good?.number)
    store.revisions.mark(name, attempted.number, "quarantined", failure.message);
  return { ...memory, stalled: { inputs, ...failure } };
}

/**
 * The revision to go back to, were `desired` given up now: the one that has the requests, however short a
 * time, otherwise the last good one. Undefined where there is none, or none is wanted.
 */
export function findRevertTarget(
  store: Store,
  resource: Resource<"App">,
  desired: DesiredApp,
  memory: ReconcileState,
  serving: Revision | undefined,
): Revision | undefined {
  if (!desired.app.rollout.autoRevert || memory.quarantine !== null) return undefined;
  if (memory.stable?.hash === desired.hash) return undefined;
  const good = serving ?? findLastGoodRevision(store, resource.metadata.name, memory);
  const isAnother =
    good !== undefined && good.specHash !== revisionHash(resource.spec, desired.image);
  return isAnother && findMissingSecret(store, good.spec) === undefined ? good : undefined;
}

/** The revision that was last Ready for long enough. */
export function findLastGoodRevision(
  store: Store,
  app: string,
  { good }: ReconcileState,
): Revision | undefined {
  const known = good === null ? undefined : store.revisions.get(app, good);
  return known ?? store.revisions.list(app).find((revision) => revision.state === "stable");
}

/** The end of a container's log, for a message; "" where there is nothing to read. */
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

/** "; port 80 was expected, but the app listens on 8080", where that can be told. */
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
