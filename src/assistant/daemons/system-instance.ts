import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { collectDefaultMetrics, Registry } from "prom-client";
import { getAssistantControlSocket } from "../../base/assistant-paths.ts";
import { Cleanup } from "../../base/cleanup.ts";
import { systemClock } from "../../base/clock.ts";
import { createLogger } from "../../base/logger.ts";
import { readPackageVersion } from "../../base/package-version.ts";
import { writeReadyFile } from "../../base/ready-file.ts";
import type { AssistantConfig } from "../../config/assistant-config.ts";
import { ControlServer } from "../inference/control/control-server.ts";
import { localAccess } from "../inference/http/client-access.ts";
import { ContainerListeners } from "../inference/http/container-listeners.ts";
import { buildInferenceServer } from "../inference/http/inference-server.ts";
import { openLedger } from "../ledger/ledger.ts";
import { createRunningDaemon, listenOnLoopback, type RunningDaemon } from "./daemon-lifetime.ts";
import { openLocalInference } from "./local-inference.ts";
import { protectTexts } from "./protect-texts.ts";

/** The JSON document that the daemon prints when it is ready, and that it writes to `run/assistant.json`. */
export interface AssistantReady {
  /** The URL of the HTTP API: `http://127.0.0.1:PORT`, with the port that the daemon listens on. */
  readonly url: string;
  readonly instance: "system";
  readonly data_dir: string;
  readonly control_socket: string;
  readonly engine: string;
  readonly pid: number;
  readonly version: string;
}

/**
 * Starts the system instance: local models on 127.0.0.1:7777, and the socket through which the control plane controls
 * it. The ledger is opened first, because nothing may happen without it and because its lock excludes a second daemon
 * on the same data directory.
 */
export async function runSystemInstance(
  config: AssistantConfig,
): Promise<RunningDaemon<AssistantReady>> {
  const logger = createLogger({ format: config.logFormat, level: config.logLevel });
  const clock = systemClock;
  const version = readPackageVersion();
  await using cleanup = new Cleanup();
  const runDir = join(config.dataDir, "run");
  await mkdir(runDir, { recursive: true, mode: 0o700 });
  await mkdir(join(config.dataDir, "models"), { recursive: true, mode: 0o700 });
  await chmod(config.dataDir, 0o700).catch(() => {});

  const ledger = cleanup.use(await openLedger({ dir: config.dataDir, clock, logger, version }));
  protectTexts({ ledger, dir: config.dataDir, environment: {}, clock, logger }, cleanup);
  const { service, engine, known, facts, residency } = await openLocalInference(
    config,
    { ledger, clock, logger },
    cleanup,
  );
  const metrics = new Registry();
  collectDefaultMetrics({ register: metrics });
  const listeners = new ContainerListeners({ logger });
  const http = buildInferenceServer({
    service,
    logger,
    clock,
    metrics,
    version,
    listeners: listeners,
    access: {
      allowsOrigin: (origin) =>
        localAccess.allowsOrigin(origin) || config.allowedOrigins.has(origin),
    },
  });
  cleanup.defer(() => http.close());
  cleanup.use(listeners);
  const url = await listenOnLoopback(http, config.port);
  const control = cleanup.use(
    new ControlServer({
      known,
      facts,
      residency,
      logger,
      openListeners: (list) => listeners.replace(list),
      state: () => ({
        version,
        pid: process.pid,
        engine: engine.name,
        url,
        memory_bytes_max: config.memoryBytesMax,
        started_by: config.startedBy ?? null,
        ledger: { ok: ledger.state.ok, size: ledger.state.size },
      }),
    }),
  );
  const controlSocket = getAssistantControlSocket(config.dataDir);
  await control.listen(controlSocket);
  const ready: AssistantReady = {
    url,
    instance: "system",
    data_dir: config.dataDir,
    control_socket: controlSocket,
    engine: engine.name,
    pid: process.pid,
    version,
  };
  await writeReadyFile(join(runDir, "assistant.json"), ready);
  logger.info({ url, engine: engine.name }, "the assistant is ready");
  void residency.loadPinned();
  return createRunningDaemon(ready, cleanup.move(), logger);
}
