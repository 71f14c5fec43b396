import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { Store } from "../../store/store.ts";
import type { AppBuilds } from "../builds/port.ts";
import type { Ingress } from "../ingress/port.ts";
import type { WriterLease } from "../lease/port.ts";
import type { LogArchive } from "../logs/log-archive.ts";
import type { ContainerListenerStatus } from "../models/container-listener.ts";
import type { ContainerRuntime, ObservedContainer } from "../runtime/port.ts";
import type { BackgroundStops } from "./background-stops.ts";
import type { FirstSeenTimes } from "./first-seen.ts";
import type { HealthMonitor } from "./health-monitor.ts";
import type { ImagePresence } from "./image-presence.ts";
import type { ImagePuller } from "./image-puller.ts";
import type { PlanExecutor } from "./plan-executor.ts";
import type { RetryTimes } from "./retry-times.ts";

export interface ReconcilerDependencies {
  readonly store: Store;
  readonly runtime: ContainerRuntime;
  readonly lease: Pick<WriterLease, "ensure">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly health: HealthMonitor;
  readonly puller: ImagePuller;
  readonly builds: AppBuilds;
  readonly ingress: Ingress;
  /** The suffix of the domain of an App whose spec names none. */
  readonly baseDomain: string;
  /**
   * The listener through which containers reach the models. Without it, containers get the default port, which is
   * assumed to be open.
   */
  readonly containerListener?: ContainerListenerStatus;
  /** The IPv4 range from which the networks of stacks get their subnets; default: NETWORK_POOL. */
  readonly networkPool?: string;
  /** The data directory, with the files and folders of Apps; undefined if the engine cannot mount it. */
  readonly dataDir?: string | undefined;
  /** Deletes a folder with all that is in it, without following links; does nothing if it is missing. */
  readonly deleteFolder: (path: string) => Promise<void>;
  readonly archive: LogArchive;
  readonly stops: BackgroundStops;
  readonly retries: RetryTimes;
  /** Runs a call that may take minutes while another worker serves the other Apps. */
  readonly withReplacementWorker: <T>(call: () => Promise<T>) => Promise<T>;
  /** Returns when the machine of the engine was started, in epoch milliseconds; undefined if that is unknown. */
  readonly bootedAtMs?: (() => number | undefined) | undefined;
  /**
   * Removes the hints that have arrived about an App's containers during the App's reconcile run; see
   * WorkQueue.takeHints. Returns true if there were some.
   */
  readonly takeHints: (app: string) => boolean;
  /**
   * Called with the containers of each observation, so that the next resync queues the App only after a later change.
   */
  readonly onObserved: (app: string, containers: readonly ObservedContainer[]) => void;
}

/** The state that all reconcile runs of Apps share: the dependencies, and the observations of this process. */
export interface ReconcilerContext extends ReconcilerDependencies {
  readonly executor: PlanExecutor;
  readonly images: ImagePresence;
  readonly firstSeenTimes: FirstSeenTimes;
  /** For each App whose source could not be resolved: the digest of the inputs with which the resolution failed. */
  readonly inputsOfFailedSources: Map<string, string>;
  /** Apps that have been observed since Berth, or the engine, came up. */
  readonly observedApps: Set<string>;
  /** Apps whose containers ended because the engine ended, and for which no plan has been executed since. */
  readonly appsEndedWithEngine: Set<string>;
}
