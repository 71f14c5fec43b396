import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { collectDefaultMetrics, Registry } from "prom-client";
import { Cleanup } from "../../base/cleanup.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { companionBusNames } from "../../base/companion-names.ts";
import { defaultPorts } from "../../base/default-ports.ts";
import { BerthError } from "../../base/errors.ts";
import { createLogger, type Logger } from "../../base/logger.ts";
import { readPackageVersion } from "../../base/package-version.ts";
import { writeReadyFile } from "../../base/ready-file.ts";
import type { CompanionConfig } from "../../config/companion-config.ts";
import { connectSessionBus } from "../../dbus/connect-session-bus.ts";
import { BusCallError } from "../../dbus/port.ts";
import { sessionBusAddress } from "../../dbus/session-bus-address.ts";
import { type OpenBus, openBus } from "../bus/open-bus.ts";
import { serveContext } from "../context/bus.ts";
import { IndexedContextService } from "../context/context-service.ts";
import { AppMemory } from "../context/memory/app-memory.ts";
import type { ContextEmbedder } from "../context/port.ts";
import { InferenceObjects } from "../inference/bus/inference-objects.ts";
import { ContainerListeners } from "../inference/http/container-listeners.ts";
import { buildInferenceServer } from "../inference/http/inference-server.ts";
import { RoutedInference } from "../inference/routing/routed-inference.ts";
import type { InferenceService } from "../inference/service-port.ts";
import { UpstreamInference } from "../inference/upstream/upstream-inference.ts";
import { serveLedger } from "../ledger/bus.ts";
import { type OpenLedger, openLedger } from "../ledger/ledger.ts";
import { TextRetention } from "../ledger/text-retention.ts";
import { serveRemote } from "../remote/remote-bus.ts";
import { appsDir, openCompanionAgent } from "./companion-agent.ts";
import { openCompanionOverlay } from "./companion-overlay.ts";
import { openCompanionRemote } from "./companion-remote.ts";
import { createRunningDaemon, listenOnLoopback, type RunningDaemon } from "./daemon-lifetime.ts";
import { LiveSettings } from "./live-settings.ts";
import { openLocalInference } from "./local-inference.ts";
import { AwaitedEmbedder } from "./model-embedder.ts";
import { protectTexts } from "./protect-texts.ts";

/** The JSON document that the companion prints when it is ready, and that it writes to `run/assistant.json`. */
export interface CompanionReady {
  /** The URL of the HTTP API: `http://127.0.0.1:PORT`, with the port that the daemon listens on. */
  readonly url: string;
  readonly instance: "user";
  readonly data_dir: string;
  /**
   * The name of the inference engine, or `upstream` if the system instance (`berth assistant --system`) runs the
   * models.
   */
  readonly engine: string;
  /** The URL of the system instance that runs the models. It is null if the companion runs the models itself. */
  readonly upstream: string | null;
  /** The well-known names that the companion owns on the session bus. */
  readonly bus_names: readonly string[];
  /** The directory that contains the sockets of the apps. */
  readonly apps_dir: string;
  readonly pid: number;
  readonly version: string;
}

/**
 * Starts one user's companion, which serves the names `dev.assistant.*` on the session bus and 127.0.0.1:7778. The
 * ledger is opened first, because nothing may happen without it and because its lock excludes a second daemon on the
 * same data directory. The bus names are requested last, so that every call to them is answered. The companion exits
 * when the session bus exits.
 */
export async function runCompanion(
  config: CompanionConfig,
): Promise<RunningDaemon<CompanionReady>> {
  const logger = createLogger({ format: config.logFormat, level: config.logLevel });
  const clock = systemClock;
  const version = readPackageVersion();
  await using cleanup = new Cleanup();
  const address = requireBusAddress(config);
  const { environment } = config;
  const runDir = join(config.dataDir, "run");
  await mkdir(runDir, { recursive: true, mode: 0o700 });
  await mkdir(join(config.dataDir, "models"), { recursive: true, mode: 0o700 });
  await chmod(config.dataDir, 0o700).catch(() => {});
  await mkdir(config.runtimeDir, { recursive: true, mode: 0o700 });

  const daemon = `berth ${version}`;
  const ledger = cleanup.use(await openLedger({ dir: config.dataDir, clock, logger, version }));
  const local = await openInference(config, { ledger, clock, logger }, cleanup);
  const { bus, sessionBus } = await openBuses(address, { clock, logger }, cleanup);
  protectTexts({ ledger, dir: config.dataDir, environment, sessionBus, clock, logger }, cleanup);
  const settings = new LiveSettings({
    file: config.settingsFile,
    homeDirectory: config.homeDirectory,
    settings: config.settings,
    logger,
  });
  const keepMs = () => settings.current().ledgerRetentionMs;
  cleanup.use(new TextRetention({ ledger, keepMs, clock, logger })).start();
  const ports = new Set(listBerthPorts(config));
  const remote = await openCompanionRemote(
    config,
    { ledger, sessionBus, ownPorts: () => ports, clock, logger },
    cleanup,
  );
  const service = new RoutedInference({
    local: local.service,
    remote: remote.inference,
    aliases: () => settings.current().models,
    logger,
    clock,
  });
  const { embeddingModel, index } = config.settings;
  const memory = cleanup.use(new AppMemory({ dir: config.dataDir, ledger, clock, logger }));
  const context = cleanup.use(
    new IndexedContextService({
      dir: config.dataDir,
      sources: index,
      embedder: embeddingModel === undefined ? undefined : "awaited",
      memory,
      ledger,
      clock,
      logger,
    }),
  );
  if (embeddingModel !== undefined) {
    const onFound = (found: ContextEmbedder) => context.setEmbedder(found);
    // Only local models embed indexed texts, because indexing a text does not permit Berth to send it to a provider.
    const wanted = { service: local.service, model: embeddingModel, clock, logger };
    const awaited = new AwaitedEmbedder({ ...wanted, onFound });
    cleanup.defer(() => awaited[Symbol.dispose]());
  }
  const { agent, registry } = await openCompanionAgent(
    config,
    { bus, daemon, ledger, sessionBus, embedder: context.embedder, settings, clock, logger },
    cleanup,
  );
  let httpPort = 0;
  openCompanionOverlay(
    {
      bus,
      daemon,
      local: local.service,
      routed: service,
      remote,
      agent,
      registry,
      context,
      ledger,
      sessionBus,
      httpPort: () => httpPort,
      clock,
      logger,
    },
    cleanup,
  );
  cleanup.defer(serveContext({ bus, service: context, daemon }));
  cleanup.defer(serveRemote({ bus, service: remote.service, daemon }));
  cleanup.defer(serveLedger({ bus, ledger, clock, daemon }));
  cleanup.use(
    // The sessions of Inference1 offer local models only; remote models are available through the overlay and port
    // 7778.
    new InferenceObjects({
      bus,
      service: local.service,
      runtimeDir: config.runtimeDir,
      clock,
      logger,
      daemon,
    }),
  );
  const metrics = new Registry();
  collectDefaultMetrics({ register: metrics });
  const listeners = new ContainerListeners({ logger });
  const http = buildInferenceServer({
    service,
    routes: service,
    logger,
    clock,
    metrics,
    version,
    listeners: listeners,
    // Unlike port 7777, this port reaches providers with the user's keys. So a web page, even one of this machine, may
    // use the port only if its origin is in the list of allowed origins.
    access: {
      allowsOrigin: (origin) =>
        config.allowedOrigins.has(origin) || settings.current().allowedOrigins.has(origin),
      owner: {
        uid: process.getuid?.() ?? 0,
        servesOtherUsers: () => settings.current().servesOtherUsers,
      },
    },
  });
  cleanup.defer(() => http.close());
  const url = await listenOnLoopback(http, config.port);
  httpPort = Number(new URL(url).port);
  ports.add(httpPort);
  for (const name of companionBusNames) await bus.requestName(name);

  const ready: CompanionReady = {
    url,
    instance: "user",
    data_dir: config.dataDir,
    engine: local.engine,
    upstream: config.upstream ?? null,
    bus_names: companionBusNames,
    apps_dir: appsDir(config),
    pid: process.pid,
    version,
  };
  await writeReadyFile(join(runDir, "assistant.json"), ready);
  logger.info({ url, names: companionBusNames }, "the companion is ready");
  let isClosing = false;
  cleanup.defer(() => {
    isClosing = true;
    agent.beginShutdown();
  });
  const daemonHandle = createRunningDaemon(ready, cleanup.move(), logger);
  void bus.closed.then(() => {
    if (isClosing) return undefined;
    logger.info({}, "the session bus closed its connection; the companion is shutting down");
    return daemonHandle.close();
  });
  return daemonHandle;
}

interface CommonDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
}

async function openInference(
  config: CompanionConfig,
  dependencies: CommonDependencies & { readonly ledger: OpenLedger },
  cleanup: Cleanup,
): Promise<{ readonly service: InferenceService; readonly engine: string }> {
  const { ledger, clock, logger } = dependencies;
  if (config.upstream !== undefined) {
    const ledgerOk = () => ledger.state.ok;
    const options = { url: config.upstream, ledger, ledgerOk, clock, logger };
    return { service: cleanup.use(new UpstreamInference(options)), engine: "upstream" };
  }
  const local = await openLocalInference(config, dependencies, cleanup);
  void local.residency.loadPinned();
  return { service: local.service, engine: local.engine.name };
}

/** Returns the default ports of Berth's services on this machine, and the port of the configured system instance. */
function listBerthPorts({ upstream }: CompanionConfig): number[] {
  const system = upstream === undefined ? [] : [Number(new URL(upstream).port)];
  return [...Object.values(defaultPorts), ...system];
}

/** Opens two connections: one exports the companion's objects, the other acts as a client that starts apps. */
async function openBuses(address: string, { clock, logger }: CommonDependencies, cleanup: Cleanup) {
  try {
    const bus: OpenBus = cleanup.use(await openBus({ address, clock, logger }));
    const sessionBus = cleanup.use(await connectSessionBus({ address, negotiateFds: false }));
    return { bus, sessionBus };
  } catch (error) {
    if (!(error instanceof BusCallError)) throw error;
    throw new BerthError(
      "server_unreachable",
      `the companion needs a session bus: ${error.message}`,
      {
        cause: error,
      },
    );
  }
}

function requireBusAddress(config: CompanionConfig): string {
  const address = sessionBusAddress(config.environment);
  if (address !== undefined) return address;
  throw new BerthError(
    "server_unreachable",
    "the companion needs a session bus, and none is available",
    {
      hint: "log in to a desktop, keep a session with `loginctl enable-linger`, or run it under dbus-run-session",
    },
  );
}
