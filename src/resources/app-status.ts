export type ConditionStatus = "True" | "False" | "Unknown";

export type ConditionType =
  | "Ready"
  | "Accepted"
  | "Built"
  | "FetchFailed"
  | "Downloaded"
  | "Loaded"
  | "Available"
  | "Progressing"
  | "Routed"
  | "Drifted"
  | "Stalled";

export interface Condition {
  readonly type: ConditionType;
  readonly status: ConditionStatus;
  /** Identifier in CamelCase, for programs. */
  readonly reason: string;
  /** Explanation for users: the state, and what to do about it. */
  readonly message: string;
  /** The time of the last change of `status`, in RFC 3339. */
  readonly lastTransitionTime: string;
  readonly observedGeneration: number;
}

/**
 * pending: accepted, not started yet. building: an image is being built. deploying: containers of the desired
 * generation are being created. running: Ready. completed: a one-shot that has run to its end. degraded: the App serves requests, but not as its spec requests.
 * stopped: stopped as its spec requests. failed: Stalled. deleting: has a deletion timestamp. unknown: the
 * engine is unreachable.
 */
export const appPhases = [
  "pending",
  "building",
  "deploying",
  "running",
  "completed",
  "degraded",
  "stopped",
  "failed",
  "deleting",
  "unknown",
] as const;
export type AppPhase = (typeof appPhases)[number];

export interface ContainerStatus {
  readonly id: string;
  readonly name: string;
  readonly replica: number;
  readonly generation: number;
  readonly role: "candidate" | "active" | "draining";
  readonly state: string;
  readonly healthy: boolean | null;
  readonly exitCode: number | null;
  readonly startedAt: string | null;
  readonly image: string;
  readonly imageId: string;
  /** The address, as host:port, under which Berth and other programs on this machine reach the App's port. */
  readonly address: string | null;
}

/**
 * The time after a switch in which Berth observes the new version, and goes back to the previous one if the new one
 * fails:
 *
 *   open -> passed: the new version is Ready, and the previous one drains
 *        -> failed: the requests go back to the previous version
 *
 * The window is stored before the switch, so that Berth resumes the observation after a crash.
 */
export interface RolloutWindow {
  /** The new version: the hash of its container settings. */
  readonly version: string;
  /** The previous version: the hash of its container settings. */
  readonly previous: string;
  readonly outcome: "open" | "passed" | "failed";
  /** The time at which the new version was ready and its observation began; null while the new version is not ready. */
  readonly since: number | null;
  /** The time at which the new version passed its observation; null before that time, and if the new version failed. */
  readonly endedAt: number | null;
  /**
   * The containers of the new version at the time `since`, each with the time of its start. A container that has
   * another time of start now was restarted.
   */
  readonly starts: readonly { readonly id: string; readonly startedAt: string | null }[];
}

/**
 * The image that the reference in an App's spec was resolved to. The pin does not change until the user requests
 * another image, even if the tag moves meanwhile.
 */
export interface ImagePin {
  /** The reference in the App's spec, or the reference of the image that was built from the App's source. */
  readonly reference: string;
  /** The engine's id of the image. */
  readonly id: string;
  /** The digest in the registry, by which the image can be pulled again; null if no registry is known to have it. */
  readonly digest: string | null;
  /**
   * True if no registry is known to have the image. The App's containers then run the image that the engine stores
   * under `reference`.
   */
  readonly isEngineOnly: boolean;
  /** The platform in the App's spec for which the image was resolved; absent if the spec names none. */
  readonly platform?: string;
  /**
   * The values of the annotations IMAGE_HOLD, DEPLOYED_AT and RESTARTED_AT when the image was resolved. After a change
   * of one of them, the pin may be outdated.
   */
  readonly hold: string | null;
  readonly deployedAt: string | null;
  readonly restartedAt: string | null;
}

/**
 * State of the App reconciler that must survive a crash. It is part of the status, so that both are written together;
 * the API does not show it. Times are epoch milliseconds.
 */
export interface ReconcileState {
  /** Restarts by Berth within the interval of the restart budget, oldest first. */
  readonly restarts: readonly {
    /** The version and the replica that were restarted. Each replica has its own restart budget. */
    readonly of: string;
    readonly at: number;
  }[];
  /** Corrections of drift in the last ten minutes, oldest first. */
  readonly drifts: readonly { readonly field: string; readonly at: number }[];
  /** The version that is being rolled out, the time of its last progress, and the time since which it is Ready. */
  readonly attempt: {
    readonly hash: string;
    readonly progressAt: number;
    readonly steps: number;
    readonly readySince: number | null;
    /**
     * The time when Berth began to roll the version out; absent in a state that an earlier version of Berth has stored.
     */
    readonly beganAt?: number;
  } | null;
  /** The version that failed and was reverted. It is not retried until the spec changes. */
  readonly quarantine: {
    /**
     * A digest of the failed version and its health checks, and, after a failed pull, of the pull credentials. Berth
     * tries the version again when the digest changes.
     */
    readonly inputs: string;
    readonly generation: number;
    readonly revertedTo: number;
    readonly reason: string;
    readonly message: string;
  } | null;
  /** The reason why Berth does not try again until `inputs` (the generation or a Secret) changes. */
  readonly stalled: {
    readonly inputs: string;
    readonly reason: string;
    readonly message: string;
  } | null;
  /** The last handled value of the retry annotation. */
  readonly retriedAt: string | null;
  /** The last stable version and its number of replicas; null while another version is rolled out. */
  readonly stable: { readonly hash: string; readonly replicas: number } | null;
  /**
   * Versions (each the hash of its container settings) that were Ready or served requests of the App, newest last. A
   * container of an older version that is not in this list was never Ready and served no request.
   */
  readonly served: readonly string[];
  /** The revisions of the versions in `served`, newest last. The last one serves now, or was the last to serve. */
  readonly servedRevisions: readonly { readonly version: string; readonly number: number }[];
  /**
   * The window of the last switch of requests from one version to another; null if Berth does not need the version
   * before the switch any more.
   */
  readonly window: RolloutWindow | null;
  /** The number of the last stable revision, to which a failed revision is reverted. */
  readonly good: number | null;
  /**
   * The runs of a one-shot that have ended with exit code 0, newest last. Its versions are not run again, unless the
   * user requests a restart after `restartedAt`, the time of the last request that was handled.
   */
  readonly completed: {
    readonly runs: readonly { readonly version: string; readonly hash: string }[];
    readonly restartedAt: string | null;
  };
  /** The image of the spec; null if it has not been resolved yet. */
  readonly image: ImagePin | null;
}

export const emptyReconcileState: ReconcileState = {
  restarts: [],
  drifts: [],
  attempt: null,
  quarantine: null,
  stalled: null,
  retriedAt: null,
  stable: null,
  served: [],
  servedRevisions: [],
  window: null,
  good: null,
  completed: { runs: [], restartedAt: null },
  image: null,
};

export interface AppStatus {
  readonly phase: AppPhase;
  readonly observedGeneration: number;
  readonly conditions: readonly Condition[];
  readonly revisions: {
    /** The number of the last revision that Berth has begun to apply. */
    readonly attempted: number | null;
    /** The number of the last revision that Berth has fully applied. */
    readonly applied: number | null;
    /** The number of the last stable revision of the App. */
    readonly stable: number | null;
  };
  readonly containers: readonly ContainerStatus[];
  readonly url: string | null;
  readonly nextRetryAt: string | null;
  /** The number of restarts by Berth in the current interval of the restart budget. */
  readonly restarts: number;
  readonly memory: ReconcileState;
}

export function findCondition(
  conditions: readonly Condition[],
  type: ConditionType,
): Condition | undefined {
  return conditions.find((condition) => condition.type === type);
}

/**
 * Sets one condition. Its transition time changes only if its status changes. The order of the list does not change,
 * so that an unchanged status stays byte-identical.
 */
export function setCondition(
  conditions: readonly Condition[],
  next: Condition,
): readonly Condition[] {
  const current = findCondition(conditions, next.type);
  if (!current) return [...conditions, next];
  const merged =
    current.status === next.status
      ? { ...next, lastTransitionTime: current.lastTransitionTime }
      : next;
  return conditions.map((condition) => (condition.type === next.type ? merged : condition));
}
