import type { AppRoute } from "../../ingress/port.ts";
import type { ContainerSpec, Labels, ObservedContainer } from "../../runtime/port.ts";
import type { DriftHistory } from "../drift-history.ts";
import type { RestartHistory } from "../restart-budget.ts";
import type { Strategy } from "../rollout-strategy.ts";

/** What a plan is made from, and what it says. */

export interface ObservedApp {
  readonly nowMs: number;
  readonly containers: readonly ObservedContainer[];
  /** By container id; absent where nothing is known yet. */
  readonly health: ReadonlyMap<string, ContainerHealth>;
  /** Where the ingress leads the App's requests; null where it does not know the App, or there is no ingress. */
  readonly route: AppRoute | null;
  /** Whether the engine holds the image; unknown where nobody has asked. */
  readonly image: "present" | "absent" | "unknown";
  readonly restarts: RestartHistory;
  /** The version has just been taken up, or started again by a person: containers that ended before do not count as restarts. */
  readonly isFresh: boolean;
  readonly drifts: DriftHistory;
  /** How many replicas of the wanted version were Ready: of these, a missing one was taken away by hand. */
  readonly stableReplicas: number;
  /** Versions that had the App's requests or were Ready. */
  readonly served: readonly string[];
  readonly firstSeen: FirstSeen;
  /** Ids of containers that are being stopped already. */
  readonly stopping: ReadonlySet<string>;
  /** Nothing is made for the wanted version until something changes; what serves is looked after. */
  readonly isStalled: boolean;
  /** What holds the making of new containers back; null where nothing does. */
  readonly blockedBy: string | null;
}

/** What an App's containers have been seen to be since when; epoch milliseconds of Berth's own clock. */
export interface FirstSeen {
  /** By container id: since when this life of a running container has been seen. */
  readonly upSince: ReadonlyMap<string, number>;
  /** By container id: since when a running container has been seen without any of the App's requests. */
  readonly idleSince: ReadonlyMap<string, number>;
}

export interface ContainerHealth {
  /** Null until the first probe has answered. */
  readonly healthy: boolean | null;
  /** It answered well for long enough, then failed too often in a row: a restart is due. */
  readonly restartDue: boolean;
  readonly message: string;
}

/** Each is one call, of the engine or of the route table. `cause` tells a person why. */
export type Operation = { readonly cause: string } & (
  | { readonly type: "pullImage"; readonly image: string }
  | { readonly type: "buildImage"; readonly image: string }
  | { readonly type: "ensureNetwork"; readonly network: string; readonly labels: Labels }
  | { readonly type: "ensureVolume"; readonly volume: string; readonly labels: Labels }
  | { readonly type: "createContainer"; readonly spec: ContainerSpec }
  | {
      readonly type: "startContainer";
      readonly name: string;
      readonly id: string | null;
      /** Whose budget the start counts against; null where it is no restart. */
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
      readonly id: string;
      readonly network: string;
      readonly aliases: readonly string[];
    }
  | {
      /** Leads new requests of the App to these addresses, and nowhere else. */
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
  /** Nobody waits for it: its App is looked after meanwhile. */
  readonly isBackground: boolean;
}

export interface Plan {
  readonly operations: readonly Operation[];
  readonly strategy: Strategy;
  /** Fields that somebody changed by hand and that this plan puts right. */
  readonly corrections: readonly string[];
  /** The field over which Berth stopped fighting; null where there is none. */
  readonly driftLoop: string | null;
  /** Containers that ended and may not be started again. */
  readonly exhausted: readonly ObservedContainer[];
  /** When a container that ended may be started again; null where none waits. */
  readonly restartAtMs: number | null;
  /** When the next step of a rollout is due though nothing happens; null where none is waited for. */
  readonly requeueAtMs: number | null;
}
