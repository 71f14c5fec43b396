import type { RolloutWindow } from "../../../resources/app-status.ts";
import type { AppRoute } from "../../ingress/port.ts";
import type {
  ContainerSpec,
  Labels,
  NetworkEndpoint,
  ObservedContainer,
} from "../../runtime/port.ts";
import type { AppFileSpec } from "../app-files.ts";
import type { DriftHistory } from "../drift-history.ts";
import type { RestartHistory } from "../restart-budget.ts";
import type { Strategy } from "../rollout-strategy.ts";

/** The types of the input and of the result of planning an App. */

export interface ObservedApp {
  /** True if the App is a one-shot whose desired version has run to its end. */
  readonly isCompleted: boolean;
  /** The versions of a one-shot that have run to their ends: the hashes of their container settings. */
  readonly completed: readonly string[];
  readonly nowMs: number;
  readonly containers: readonly ObservedContainer[];
  /** Health by container id; absent for a container that has not been probed yet. */
  readonly health: ReadonlyMap<string, ContainerHealth>;
  /**
   * The targets to which the ingress routes the App's requests; null if the ingress does not know the App, or if
   * there is no ingress.
   */
  readonly route: AppRoute | null;
  /** Indicates if the engine holds the image; `unknown` if the engine has not been asked. */
  readonly image: "present" | "absent" | "unknown";
  readonly restarts: RestartHistory;
  /**
   * True if the attempt at this version has just begun, so that earlier exits of its containers do not count as
   * restarts.
   */
  readonly isFresh: boolean;
  readonly drifts: DriftHistory;
  /**
   * The number of replicas of the desired version that have been Ready. If one of these replicas is missing now,
   * another program has removed its container, and creating the container again counts as a correction of drift.
   */
  readonly stableReplicas: number;
  /** The hashes of versions that have received requests of the App or were Ready. */
  readonly served: readonly string[];
  readonly firstSeen: FirstSeen;
  readonly window: RolloutWindow | null;
  /**
   * The open connections, by container id, of containers that get no new requests. A container is absent if its
   * connections are unknown.
   */
  readonly connections: ReadonlyMap<string, number>;
  /** Ids of containers that are being stopped already. */
  readonly stopping: ReadonlySet<string>;
  /**
   * True if Berth creates no containers of the desired version until an input changes. The serving version is kept
   * running.
   */
  readonly isStalled: boolean;
  /** True if the version was stable earlier, so that it is restarted without a limit. */
  readonly isProven: boolean;
  /** The reason why no containers may be created now; null if there is none. */
  readonly blockedBy: string | null;
}

/** The times at which containers were first seen in a state, in epoch milliseconds of Berth's own clock. */
export interface FirstSeen {
  /** The time at which each container (by id) was first seen healthy since its last start or failure. */
  readonly healthySince: ReadonlyMap<string, number>;
  /** The time at which each running container (by id) was first seen without any of the App's requests. */
  readonly idleSince: ReadonlyMap<string, number>;
}

export interface ContainerHealth {
  /** The health of the container; null until the first probe has answered. */
  readonly healthy: boolean | null;
  /** True if the container was healthy and then failed too often in a row, or did not become healthy in time. */
  readonly restartDue: boolean;
  /** True if the container counts as healthy although its last probe failed. */
  readonly isSuspect?: boolean;
  readonly message: string;
}

/** One call to the engine or to the route table. `cause` explains the call to the user. */
export type Operation = { readonly cause: string } & (
  | { readonly type: "pullImage"; readonly image: string }
  | { readonly type: "buildImage"; readonly image: string }
  | {
      readonly type: "ensureNetwork";
      readonly network: string;
      readonly labels: Labels;
      /** The IPv4 range from which the network gets a subnet. Without it, the engine chooses the subnet. */
      readonly pool?: string;
    }
  | {
      /** Writes the files that the App's containers mount. `name` is that of the App. */
      readonly type: "writeFiles";
      readonly name: string;
      readonly files: readonly AppFileSpec[];
    }
  /** Makes a folder below the data directory that the App's containers mount. */
  | { readonly type: "makeFolder"; readonly folder: string }
  | { readonly type: "ensureVolume"; readonly volume: string; readonly labels: Labels }
  | { readonly type: "createContainer"; readonly spec: ContainerSpec }
  | {
      readonly type: "startContainer";
      readonly name: string;
      readonly id: string | null;
      /** The key of the restart budget that the start counts against; null if the start is not a restart. */
      readonly restart: string | null;
    }
  | StopOperation
  | { readonly type: "removeContainer"; readonly name: string; readonly id: string }
  | {
      readonly type: "renameContainer";
      readonly name: string;
      readonly id: string;
      readonly from: string;
    }
  | {
      readonly type: "connectNetwork";
      readonly name: string;
      /** The id of the container; null if an earlier operation of the plan creates the container. */
      readonly id: string | null;
      readonly network: string;
      readonly endpoint: NetworkEndpoint;
    }
  | {
      /** The operation that makes the ingress send new requests of the App to `targets` only. */
      readonly type: "switchRoute";
      readonly name: string;
      readonly version: string;
      readonly targets: readonly string[];
    }
);

export interface StopOperation {
  readonly type: "stopContainer";
  readonly name: string;
  readonly id: string;
  readonly graceMs: number;
  /** True if the reconcile run does not wait until the container has stopped. */
  readonly isBackground: boolean;
}

export interface Plan {
  readonly operations: readonly Operation[];
  readonly strategy: Strategy;
  /** Fields that were changed by hand and that this plan corrects. */
  readonly corrections: readonly string[];
  /** The field that Berth no longer corrects, because its corrections were undone too often; null if there is none. */
  readonly driftLoop: string | null;
  /** Containers that ended, and whose restart budget is used up. */
  readonly exhausted: readonly ObservedContainer[];
  /**
   * Containers of a version that was stable earlier. They have used more restarts in a row than the restart budget of a
   * new version allows, and are still not healthy.
   */
  readonly failing: readonly ObservedContainer[];
  /**
   * The time, in epoch milliseconds, when a container that ended may be started again; null if no container waits for
   * a restart.
   */
  readonly restartAtMs: number | null;
  /**
   * The time, in epoch milliseconds, when the next step of a rollout is due without an event; null if no step is due.
   */
  readonly requeueAtMs: number | null;
}
