import { join } from "node:path";
import type { Registry } from "prom-client";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { Config } from "../config/config.ts";
import { ArchiveStore } from "../controller/builds/archive-store.ts";
import { buildMetrics } from "../controller/builds/build-metrics.ts";
import { BuildService } from "../controller/builds/build-service.ts";
import type { Git } from "../controller/git/git.ts";
import type { ContainerRuntime } from "../controller/runtime/port.ts";
import type { Store } from "../store/store.ts";

/** Creates the service that builds images from sources, with its archives and its metrics. */
export function openBuilds(options: {
  readonly config: Config;
  readonly store: Store;
  readonly runtime: ContainerRuntime;
  readonly git: Git;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly onChanged: (app: string) => void;
  readonly onImageRemoved: (reference: string) => void;
}): BuildService {
  const { config, metrics } = options;
  return new BuildService({
    ...options,
    archives: new ArchiveStore({
      dir: join(config.dataDir, "archives"),
      bytesMax: config.uploadBytesMax,
    }),
    dataDir: config.dataDir,
    limits: config.build,
    metrics: buildMetrics(metrics),
  });
}
