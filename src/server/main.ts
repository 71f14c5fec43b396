import { EventEmitter, once } from "node:events";
import { chmod, mkdir } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { collectDefaultMetrics, Registry } from "prom-client";
import { createApiServer } from "../api/api-server.ts";
import { writeLocalToken } from "../api/auth/local-token.ts";
import { ensurePassword } from "../api/auth/password.ts";
import { Cleanup } from "../base/cleanup.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { BerthError } from "../base/errors.ts";
import { createLogger, type Logger } from "../base/logger.ts";
import { readPackageVersion } from "../base/package-version.ts";
import { writeReadyFile } from "../base/ready-file.ts";
import { type Config, createChildEnvironment, getProgramSearchPath } from "../config/config.ts";
import { ArchiveStore } from "../controller/builds/archive-store.ts";
import { buildMetrics } from "../controller/builds/build-metrics.ts";
import { BuildService } from "../controller/builds/build-service.ts";
import { loadCatalog } from "../controller/catalogs/catalog.ts";
import { ControllerManager } from "../controller/controller-manager.ts";
import { Git } from "../controller/git/git.ts";
import { findHostReachability } from "../controller/ingress/host-reachability.ts";
import { FileLogArchive } from "../controller/logs/file-log-archive.ts";
import { createControllerMetrics } from "../controller/metrics/controller-metrics.ts";
import { AssistantSupervisor } from "../controller/models/assistant/assistant-supervisor.ts";
import { ControlClient } from "../controller/models/assistant/control-client.ts";
import { ControlTransport } from "../controller/models/assistant/control-transport.ts";
import { disabledAssistant } from "../controller/models/assistant/disabled-assistant.ts";
import type {
  AssistantControl,
  AssistantDaemon,
  AssistantReport,
} from "../controller/models/assistant/port.ts";
import { MODELS_PORT } from "../controller/models/container-listener.ts";
import { ContainerListenerReconciler } from "../controller/models/container-listener-reconciler.ts";
import { ModelDisk } from "../controller/models/files/model-disk.ts";
import { ModelSourceResolver } from "../controller/models/hub/model-source-resolver.ts";
import { modelMetrics } from "../controller/models/model-metrics.ts";
import { WebhookSender } from "../controller/notifications/webhook-sender.ts";
import { DockerRuntime } from "../controller/runtime/docker-runtime.ts";
import { createBootTimeReader } from "../controller/runtime/machine-boot.ts";
import { withCallMetrics } from "../controller/runtime/metered-runtime.ts";
import { FollowedSpecs } from "../controller/specs/followed-specs.ts";
import { SpecFolder } from "../controller/specs/spec-folder.ts";
import { SpecsGitFollower } from "../controller/specs/specs-git-follower.ts";
import { openStore } from "../store/sqlite-store.ts";
import type { Store } from "../store/store.ts";
import { LocalControlPlane } from "./local-control-plane.ts";
import { openCompanion } from "./open-companion.ts";
import { openIngress } from "./open-ingress.ts";

/** What starts a daemon of this version. */
const program = [process.execPath, join(import.meta.dirname, "../../bin/berth")];

export { restoreStore } from "../store/restore.ts";

/** What `run/berth.json` and the ready line say; the password only where this start made it. */
export interface ReadyInfo {
  /** http://host:port, as bound. */
  readonly api: string;
  readonly specs_dir: string;
  readonly data_dir: string;
  readonly instance: string;
  readonly pid: number;
  readonly version: string;
  readonly docker_host: string;
  readonly password?: string;
}

export interface RunningServer {
  readonly ready: ReadyInfo;
  /** Resolves when the server has ended. */
  readonly closed: Promise<void>;
  /** Ends the server; apps go on. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * Builds every part and starts it: the store first, because it keeps a second server out, then the
 * reconcilers, the watched folder, and last the API. What was started is ended again when a later
 * part fails. An engine that does not answer is no reason not to start: health says so.
 */
export async function runServer(config: Config): Promise<RunningServer> {
  const logger = createLogger({ format: config.logFormat, level: config.logLevel });
  const clock = systemClock;
  const version = readPackageVersion();
  await using starting = new Cleanup();
  await mkdir(join(config.dataDir, "run"), { recursive: true, mode: 0o700 });
  // It may have been there before, open to others; where it is not ours to close, doctor says so.
  await chmod(config.dataDir, 0o700).catch(() => {});
  const store = starting.use(openStore({ dataDir: config.dataDir, clock, logger }));
  const metrics = new Registry();
  collectDefaultMetrics({ register: metrics });
  const reconcileMetrics = createControllerMetrics(metrics);
  const docker = starting.use(new DockerRuntime({ host: config.dockerHost, clock }));
  const runtime = withCallMetrics(docker, reconcileMetrics.engineCalls);
  const archive = new FileLogArchive({
    dir: join(config.dataDir, "logs"),
    runtime,
    logger,
    now: () => clock.now(),
  });
  // Before anything is changed, and before a password is made, which is shown once.
  await assertListenable(config);
  const ending = new AbortController();
  const searchPath = getProgramSearchPath();
  const onChanged = (app: string) => manager.apps.enqueue(app);
  const ingress = starting.use(
    await openIngress(
      { config, store, runtime, clock, logger, searchPath, onChanged },
      ending.signal,
    ),
  );
  const git = new Git({ dir: join(config.dataDir, "git"), searchPath, clock });
  const builds = starting.use(
    new BuildService({
      store,
      runtime,
      git,
      archives: new ArchiveStore({
        dir: join(config.dataDir, "archives"),
        bytesMax: config.uploadBytesMax,
      }),
      clock,
      logger,
      dataDir: config.dataDir,
      limits: config.build,
      metrics: buildMetrics(metrics),
      onChanged,
      onImageRemoved: (reference) => manager.apps.handleImageRemoved(reference),
    }),
  );
  const assistant = openAssistant({
    config,
    starting,
    store,
    clock,
    logger,
    version,
    onChange: (report) => {
      manager.models.onAssistantChanged();
      containerListeners.refresh();
      companion.setUpstream(report.url);
    },
  });
  const companion = openCompanion({
    config,
    environment: createChildEnvironment(),
    program,
    starting,
    clock,
    logger,
  });
  const containerListeners = starting.use(
    new ContainerListenerReconciler({
      store,
      runtime,
      assistant: assistant.control,
      findReachability: (signal) =>
        findHostReachability({ runtime, store, dockerHost: config.dockerHost, signal }),
      port: config.assistant?.port ?? MODELS_PORT,
      clock,
      logger,
      onChanged,
    }),
  );
  const files = starting.use(
    new ModelDisk({
      dir: join(config.dataDir, "models"),
      clock,
      logger,
      version,
      budgetBytes: config.models.diskBytesMax,
      bandwidthBytesPerSecond: config.models.bandwidthBytesMax,
    }),
  );
  const manager = starting.use(
    new ControllerManager({
      models: {
        sources: new ModelSourceResolver({
          endpoint: config.models.hubUrl,
          token: config.models.hubToken,
          clock,
        }),
        files,
        assistant: assistant.control,
        daemon: assistant.daemon,
        metrics: modelMetrics(metrics, store),
      },
      store,
      runtime,
      clock,
      logger,
      archive,
      builds,
      ingress,
      baseDomain: config.baseDomain,
      bootedAtMs: createBootTimeReader(runtime, clock),
      containerListener: containerListeners,
      metrics: reconcileMetrics,
      random: Math.random,
    }),
  );
  const folder = new SpecFolder({ folder: config.specsDir, store, clock, logger });
  const follower =
    config.specsGit &&
    new SpecsGitFollower({
      git,
      folder: config.specsDir,
      tempDir: join(config.dataDir, "specs-git"),
      config: config.specsGit,
      store,
      clock,
      logger,
      random: Math.random,
      rescan: () => folder.rescan(),
    });
  const controlPlane = new LocalControlPlane({
    store,
    runtime,
    archive,
    manager,
    specs: follower ? new FollowedSpecs(folder, follower) : folder,
    builds,
    ingress,
    containerListener: containerListeners,
    companion,
    now: () => clock.now(),
  });
  const catalogs = [
    loadCatalog(join(import.meta.dirname, "../../templates")),
    ...(config.templatesDir === undefined ? [] : [loadCatalog(config.templatesDir)]),
  ];
  const password = await ensurePassword(store, config.password);

  starting.defer(() => ending.abort());
  const webhooks = starting.use(
    new WebhookSender({ store, clock, logger, version, random: Math.random }),
  );
  webhooks.start();
  await git
    .start()
    .catch((error: unknown) => logger.warn({ err: error }, "old files of git were not removed"));
  await builds.start();
  ingress.start(ending.signal);
  assistant.start();
  companion.start();
  manager.start();
  containerListeners.start();
  starting.use(folder);
  await folder.start(ending.signal);
  if (follower) starting.use(follower).start();

  const api = createApiServer({
    store,
    control: controlPlane,
    builds,
    ingress,
    webhooks,
    clock,
    logger,
    metrics,
    version,
    config,
    templates: catalogs.flatMap((catalog) => catalog.templates),
    models: catalogs.flatMap((catalog) => catalog.models),
  });
  starting.defer(() => api.close());
  await listen((address) => api.listen(address), config);
  await writeLocalToken(store.tokens, join(config.dataDir, "run", "token"));
  const ready = {
    api: boundAddress(api.server.address(), config),
    specs_dir: config.specsDir,
    data_dir: config.dataDir,
    instance: store.instanceId,
    pid: process.pid,
    version,
    docker_host: config.dockerHost,
  };
  await writeReadyFile(join(config.dataDir, "run", "berth.json"), ready);
  logger.info({ api: ready.api, specs: config.specsDir, instance: ready.instance }, "berth is up");

  // First of all, and beside the rest: they may take most of the time that there is.
  starting.defer(() => {
    for (const daemon of [companion, assistant]) void daemon.end().catch(() => {});
  });
  const startedParts = starting.move();
  let closing: Promise<void> | undefined;
  const ended = new EventEmitter();
  const untilEnded = async () => void (await once(ended, "end"));
  return {
    ready: password === undefined ? ready : { ...ready, password },
    closed: untilEnded(),
    close: () => {
      closing ??= startedParts[Symbol.asyncDispose]().finally(() => ended.emit("end"));
      return closing;
    },
  };
}

/** The assistant that the configuration wants: looked after from `start` on, or none at all. */
function openAssistant(options: {
  readonly config: Config;
  readonly starting: Cleanup;
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  readonly onChange: (report: AssistantReport) => void;
}): {
  readonly control: AssistantControl;
  readonly daemon: AssistantDaemon;
  readonly start: () => void;
  /** Begins to end it, and resolves when it has ended; `starting` waits for that too. */
  readonly end: () => Promise<void>;
} {
  const { config, starting, store, clock, logger, version } = options;
  const { assistant, logFormat, logLevel } = config;
  if (!assistant)
    return {
      control: disabledAssistant,
      daemon: disabledAssistant,
      start: () => {},
      end: async () => {},
    };
  const calls = new ControlTransport({ dataDir: assistant.dataDir });
  starting.defer(() => calls[Symbol.dispose]());
  const supervisor = new AssistantSupervisor({
    program,
    settings: assistant,
    owner: store.instanceId,
    environment: createChildEnvironment(),
    version,
    logFormat,
    logLevel,
    transport: calls,
    clock,
    logger,
    onChange: (report, event) => {
      if (event) store.events.record({ kind: null, name: "", ...event });
      options.onChange(report);
    },
  });
  let ended: Promise<void> | undefined;
  const end = () => (ended ??= supervisor[Symbol.asyncDispose]());
  starting.defer(end);
  const start = () => supervisor.start();
  return { control: new ControlClient({ calls }), daemon: supervisor, start, end };
}

/**
 * Throws where the address cannot be had, before anything is reconciled: a server that will not come
 * up must not have changed anything.
 */
async function assertListenable(config: Config): Promise<void> {
  const probe = createServer();
  try {
    await listen(
      ({ host, port }) =>
        new Promise<void>((resolve, reject) => {
          probe.once("error", reject).listen({ host, port }, resolve);
        }),
      config,
    );
  } finally {
    probe.close();
  }
}

async function listen(
  bind: (address: { host: string; port: number }) => Promise<unknown>,
  config: Config,
): Promise<void> {
  const { host, port } = config.listen;
  try {
    await bind({ host, port });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (code === "EADDRINUSE") {
      throw new BerthError("conflict", `port ${port} of ${host} is taken by another program`, {
        hint: `choose another one with --listen ${host}:PORT, or --listen ${host}:0 for any`,
        cause: error,
      });
    }
    if (code === "EACCES" || code === "EADDRNOTAVAIL") {
      throw new BerthError("conflict", `cannot listen on ${host}:${port} (${code})`, {
        hint: "choose another --listen",
        cause: error,
      });
    }
    throw error;
  }
}

/** The address as bound, with the port that the system picked where 0 was asked for. */
function boundAddress(bound: AddressInfo | string | null, config: Config): string {
  const address = typeof bound === "object" && bound !== null ? bound.address : config.listen.host;
  const port = typeof bound === "object" && bound !== null ? bound.port : config.listen.port;
  return address.includes(":") ? `http://[${address}]:${port}` : `http://${address}:${port}`;
}
