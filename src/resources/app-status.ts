export type ConditionStatus = "True" | "False" | "Unknown";

export type ConditionType =
  | "Ready"
  | "Accepted"
  | "Built"
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
  /** CamelCase, for programs. */
  readonly reason: string;
  /** For people: what is so, and what to do about it. */
  readonly message: string;
  /** RFC 3339; changes only when `status` does. */
  readonly lastTransitionTime: string;
  readonly observedGeneration: number;
}

/**
 * pending: accepted, nothing done yet. building: an image is being built. deploying: containers are
 * being made for the wanted generation. running: Ready. degraded: serves, but not as wanted.
 * stopped: as wanted. failed: Stalled. deleting: has a deletion timestamp. unknown: the engine is out of sight.
 */
export const appPhases = [
  "pending",
  "building",
  "deploying",
  "running",
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
  /** host:port on which Berth, and anybody on this machine, reaches the app's port. */
  readonly address: string | null;
}

/**
 * What the App reconciler must still know after a crash. Kept with the status because it is written
 * in the same step; the API does not show it. Times are epoch milliseconds.
 */
export interface ReconcileState {
  /** Restarts that Berth made, oldest first, no older than the restart budget's interval. */
  readonly restarts: readonly {
    /** Version and replica: each replica has a budget of its own. */
    readonly of: string;
    readonly at: number;
  }[];
  /** Corrections of drift, oldest first, no older than ten minutes. */
  readonly drifts: readonly { readonly field: string; readonly at: number }[];
  /** The version being brought up, when it last got further, and since when it has been Ready. */
  readonly attempt: {
    readonly hash: string;
    readonly progressAt: number;
    readonly steps: number;
    readonly readySince: number | null;
  } | null;
  /** The version that failed and was reverted; it is not tried again while it is what the spec says. */
  readonly quarantine: {
    /** Digest of the version, of how it was to be judged, and of what it was pulled with where that failed. */
    readonly inputs: string;
    readonly generation: number;
    readonly revertedTo: number;
    readonly reason: string;
    readonly message: string;
  } | null;
  /** Why nothing is tried until `inputs` (generation, secrets) changes. */
  readonly stalled: {
    readonly inputs: string;
    readonly reason: string;
    readonly message: string;
  } | null;
  /** The value of the retry annotation that has been obeyed. */
  readonly retriedAt: string | null;
  /** The version that was last Ready for long enough, and with how many replicas; null once another one is brought up. */
  readonly stable: { readonly hash: string; readonly replicas: number } | null;
  /**
   * Versions (hashes of containers) that had the App's requests or were Ready, the newest last. Containers of
   * others that are no longer wanted were never needed.
   */
  readonly served: readonly string[];
  /** Number of the revision that was last Ready for long enough; what a failing one is exchanged for. */
  readonly good: number | null;
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
  good: null,
};

export interface AppStatus {
  readonly phase: AppPhase;
  readonly observedGeneration: number;
  readonly conditions: readonly Condition[];
  readonly revisions: {
    /** The revision that was last tried, that last had all its containers made, and that was last Ready. */
    readonly attempted: number | null;
    readonly applied: number | null;
    readonly stable: number | null;
  };
  readonly containers: readonly ContainerStatus[];
  readonly url: string | null;
  readonly nextRetryAt: string | null;
  /** Restarts in the running interval of the restart budget. */
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
 * Sets one condition, keeping its transition time unless the status changed. The order of the list
 * does not change, so that an unchanged status stays equal byte by byte.
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
