import { join } from "node:path";
import type { Registry } from "prom-client";
import type { Cleanup } from "../base/cleanup.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { Config } from "../config/config.ts";
import type { ControllerManagerOptions } from "../controller/controller-manager.ts";
import { findHostReachability } from "../controller/ingress/host-reachability.ts";
import type { AssistantControl, AssistantDaemon } from "../controller/models/assistant/port.ts";
import { MODELS_PORT } from "../controller/models/container-listener.ts";
import { ContainerListenerReconciler } from "../controller/models/container-listener-reconciler.ts";
import { ModelDisk } from "../controller/models/files/model-disk.ts";
import { ModelSourceResolver } from "../controller/models/hub/model-source-resolver.ts";
import { modelMetrics } from "../controller/models/model-metrics.ts";
import type { ContainerRuntime } from "../controller/runtime/port.ts";
import type { Store } from "../store/store.ts";

/** Creates the parts that the model controller needs, and the listeners through which containers reach the models. */
export function openModels(options: {
  readonly config: Config;
  readonly starting: Cleanup;
  readonly store: Store;
  readonly runtime: ContainerRuntime;
  readonly assistant: { readonly control: AssistantControl; readonly daemon: AssistantDaemon };
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  readonly metrics: Registry;
  readonly onChanged: (app: string) => void;
}): {
  readonly containerListeners: ContainerListenerReconciler;
  readonly controllerOptions: ControllerManagerOptions["models"];
} {
  const { config, starting, store, runtime, assistant, clock, logger, version } = options;
  const { dockerHost, models } = config;
  const containerListeners = starting.use(
    new ContainerListenerReconciler({
      store,
      runtime,
      assistant: assistant.control,
      findReachability: (signal) => findHostReachability({ runtime, store, dockerHost, signal }),
      networkPool: config.networkPool,
      port: config.assistant?.port ?? MODELS_PORT,
      clock,
      logger,
      onChanged: options.onChanged,
    }),
  );
  const files = starting.use(
    new ModelDisk({
      dir: join(config.dataDir, "models"),
      clock,
      logger,
      version,
      budgetBytes: models.diskBytesMax,
      bandwidthBytesPerSecond: models.bandwidthBytesMax,
    }),
  );
  const sources = new ModelSourceResolver({
    endpoint: models.hubUrl,
    token: models.hubToken,
    clock,
  });
  return {
    containerListeners,
    controllerOptions: {
      sources,
      files,
      assistant: assistant.control,
      daemon: assistant.daemon,
      metrics: modelMetrics(options.metrics, store),
    },
  };
}
