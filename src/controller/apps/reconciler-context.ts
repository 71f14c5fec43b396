import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { Store } from "../../store/store.ts";
import type { AppBuilds } from "../builds/port.ts";
import type { Ingress } from "../ingress/port.ts";
import type { LogArchive } from "../logs/log-archive.ts";
import type { ContainerListenerStatus } from "../models/container-listener.ts";
import type { ContainerRuntime, ObservedContainer } from "../runtime/port.ts";
import type { BackgroundStops } from "./background-stops.ts";
import type { FirstSeenTimes } from "./first-seen.ts";
import type { HealthMonitor } from "./health-monitor.ts";
import type { ImagePresence } from "./image-presence.ts";
import type { ImagePuller } from "./image-puller.ts";
import type { PlanExecutor } from "./plan-executor.ts";

export interface ReconcilerDependencies {
  readonly store: Store;
  readonly runtime: ContainerRuntime;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly health: HealthMonitor;
  readonly puller: ImagePuller;
  readonly builds: AppBuilds;
  readonly ingress: Ingress;
  /** What an App's domain ends in where its spec names none. */
  readonly baseDomain: string;
  /** The way from containers to the models; without it, the usual one. */
  readonly containerListener?: ContainerListenerStatus;
  readonly archive: LogArchive;
  readonly stops: BackgroundStops;
  /** Runs a call that may take minutes without keeping a worker from other Apps. */
  readonly withReplacementWorker: <T>(call: () => Promise<T>) => Promise<T>;
  /** When the machine that the engine runs on came up, in epoch milliseconds; undefined where nobody knows. */
  readonly bootedAtMs?: (() => number | undefined) | undefined;
  /** Told of every look at an App's containers, so that the resync knows what has been seen. */
  readonly onObserved: (app: string, containers: readonly ObservedContainer[]) => void;
}

/** What every run shares: the dependencies, and what this process has seen of the engine. */
export interface ReconcilerContext extends ReconcilerDependencies {
  readonly executor: PlanExecutor;
  readonly images: ImagePresence;
  readonly firstSeenTimes: FirstSeenTimes;
  /** With which inputs the source of an App turned out to lead nowhere. */
  readonly inputsOfFailedSources: Map<string, string>;
  /** Apps that have been looked at since Berth, or the engine, came up. */
  readonly observedApps: Set<string>;
  /** Apps for which nothing has been done since the engine was lost: their containers have ended with it. */
  readonly appsEndedWithEngine: Set<string>;
}
