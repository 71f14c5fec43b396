import { chmod, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { collectDefaultMetrics, Registry } from "prom-client";
import { createApiServer } from "../api/api-server.ts";
import { writeLocalToken } from "../api/auth/local-token.ts";
import { ensurePassword } from "../api/auth/password.ts";
import { Cleanup } from "../base/cleanup.ts";
import { systemClock } from "../base/clock.ts";
import { acceptIngressConnections } from "../base/http/ingress-connections.ts";
import { type Certificate, TlsServerWithLocalHttp } from "../base/http/tls-server.ts";
import { createLogger } from "../base/logger.ts";
import { packageRoot } from "../base/package-root.ts";
import { readPackageVersion } from "../base/package-version.ts";
import { writeReadyFile } from "../base/ready-file.ts";
import { type Config, createChildEnvironment, getProgramSearchPath } from "../config/config.ts";
import { findPlainExposure } from "../config/plain-exposure.ts";
import { findKeyExposure } from "../config/tls-files.ts";
import { loadBuiltInCatalog, loadCatalog } from "../controller/catalogs/catalog.ts";
import { ControllerManager } from "../controller/controller-manager.ts";
import { Git } from "../controller/git/git.ts";
import { ingressPaths } from "../controller/ingress/ingress-paths.ts";
import { withLease } from "../controller/lease/leased-runtime.ts";
import { FileLogArchive } from "../controller/logs/file-log-archive.ts";
import { createControllerMetrics } from "../controller/metrics/controller-metrics.ts";
import { WebhookSender } from "../controller/notifications/webhook-sender.ts";
import { DockerRuntime } from "../controller/runtime/docker-runtime.ts";
import { createBootTimeReader } from "../controller/runtime/machine-boot.ts";
import { withCallMetrics } from "../controller/runtime/metered-runtime.ts";
import { openStore } from "../store/sqlite-store.ts";
import { readCertificate, watchCertificate } from "./certificate-files.ts";
import { listReservedPorts } from "./list-reserved-ports.ts";
import { assertListenable, boundAddress, listen } from "./listen.ts";
import { LocalControlPlane } from "./local-control-plane.ts";
import { openAssistant } from "./open-assistant.ts";
import { openBuilds } from "./open-builds.ts";
import { openCompanion } from "./open-companion.ts";
import { openIngress } from "./open-ingress.ts";
import { openLease } from "./open-lease.ts";
import { openModels } from "./open-models.ts";
import { openSpecs } from "./open-specs.ts";
import { createRunningServer, type RunningServer } from "./running-server.ts";

/** The program that starts a daemon of this version, and its first arguments. */
const program = [process.execPath, join(packageRoot, "bin/berth")];

export { readBackupManifest } from "../store/backup-manifest.ts";
export { restoreStore } from "../store/restore.ts";

/**
 * Opens every part, then starts them. The store is opened first, because its lock prevents a second server. It is
 * followed by the reconcilers, the watched folder, and last the API. If a part fails, the parts that were opened are
 * closed again. The server starts even if the engine does not answer; its health then shows that.
 */
export async function runServer(config: Config): Promise<RunningServer> {
  const logger = createLogger({ format: config.logFormat, level: config.logLevel });
  const clock = systemClock;
  const version = readPackageVersion();
  await using starting = new Cleanup();
  await mkdir(join(config.dataDir, "run"), { recursive: true, mode: 0o700 });
  // The folder may exist already, and other users may be able to read it. If its mode cannot be changed, `berth
  // doctor` reports that.
  await chmod(config.dataDir, 0o700).catch(() => {});
  const hostPaths = readHostPaths(config);
  const catalogs = [
    loadBuiltInCatalog(),
    ...(config.templatesDir === undefined ? [] : [loadCatalog(config.templatesDir)]),
  ];
  const templates = catalogs.flatMap((catalog) => catalog.templates);
  const catalogTemplates = templates.map(({ metadata }) => metadata.name);
  const { dataDir, baseDomain } = config;
  const guarded = { hostPaths, catalogTemplates, baseDomain };
  const store = starting.use(openStore({ dataDir, ...guarded, clock, logger }));
  const metrics = new Registry();
  collectDefaultMetrics({ register: metrics });
  const reconcileMetrics = createControllerMetrics(metrics);
  const docker = starting.use(new DockerRuntime({ host: config.dockerHost, clock }));
  const metered = withCallMetrics(docker, reconcileMetrics.engineCalls);
  const lease = await openLease({ config, store, runtime: metered, clock, logger });
  const runtime = withLease(metered, lease);
  const shared = { config, store, runtime, clock, logger, version };
  const archive = new FileLogArchive({
    dir: join(config.dataDir, "logs"),
    runtime,
    logger,
    now: () => clock.now(),
  });
  // The listen address is checked before anything is changed, and before a password is generated, because a new
  // password is shown only once.
  await assertListenable(config);
  const certificate = config.tls && readCertificate(config.tls);
  const ending = new AbortController();
  const searchPath = getProgramSearchPath();
  const onChanged = (app: string) => manager.apps.enqueue(app);
  const ingress = starting.use(
    await openIngress(
      { ...shared, searchPath, onChanged: (app) => manager.apps.enqueueHint(app) },
      ending.signal,
    ),
  );
  const git = new Git({ dir: join(config.dataDir, "git"), searchPath, clock });
  const builds = starting.use(
    openBuilds({
      ...shared,
      git,
      metrics,
      onChanged,
      onImageRemoved: (reference) => manager.apps.handleImageRemoved(reference),
    }),
  );
  const assistant = openAssistant({
    ...shared,
    program,
    starting,
    onChange: (report) => {
      manager.models.onAssistantChanged();
      containerListeners.refresh();
      companion.setUpstream(report.url);
    },
  });
  const companion = openCompanion({
    ...shared,
    environment: createChildEnvironment(),
    program,
    starting,
  });
  const { containerListeners, controllerOptions } = openModels({
    ...shared,
    starting,
    assistant,
    metrics,
    onChanged,
  });
  const manager = starting.use(
    new ControllerManager({
      ...shared,
      lease,
      models: controllerOptions,
      archive,
      builds,
      ingress,
      baseDomain: config.baseDomain,
      bootedAtMs: createBootTimeReader(runtime, clock),
      containerListener: containerListeners,
      networkPool: config.networkPool,
      dataDir: config.dataDir,
      deleteFolder: (path) => rm(path, { recursive: true, force: true }),
      metrics: reconcileMetrics,
      random: Math.random,
    }),
  );
  const reservedPorts = listReservedPorts(config, {
    ingress: ingress.mode,
    hasCompanion: !["off", "no_bus"].includes(companion.report().state),
  });
  const specs = openSpecs({ ...shared, git, reservedPorts });
  const controlPlane = new LocalControlPlane({
    ...shared,
    archive,
    manager,
    specs: specs.control,
    companion,
  });
  const password = await ensurePassword(store, config.password);

  starting.defer(() => ending.abort());
  const webhooks = starting.use(new WebhookSender({ ...shared, random: Math.random }));
  webhooks.start();
  await git
    .start()
    .catch((error: unknown) =>
      logger.warn({ err: error }, "files of earlier git commands were not removed"),
    );
  await builds.start();
  ingress.start(ending.signal);
  assistant.start();
  companion.start();
  manager.start();
  containerListeners.start();
  await specs.start(starting, ending.signal);

  const api = createApiServer({
    ...shared,
    config: { ...config, reservedPorts },
    ...(certificate ? { certificate } : {}),
    control: controlPlane,
    builds,
    ingress,
    webhooks,
    metrics,
    templates,
    models: catalogs.flatMap((catalog) => catalog.models),
  });
  starting.defer(() => api.close());
  if (config.tls && certificate && api.server instanceof TlsServerWithLocalHttp) {
    const { server } = api;
    const onRenewed = (renewed: Certificate) => server.setCertificate(renewed);
    const options = { clock, logger, onRenewed };
    starting.defer(watchCertificate(config.tls, certificate, options));
  }
  await listen((address) => api.listen(address), config);
  const ingressApi = ingress.api();
  if (ingressApi) {
    const { apiSocket } = await ingressPaths(config.dataDir);
    starting.defer(await acceptIngressConnections(api.server, apiSocket));
  }
  await writeLocalToken(store.tokens, join(config.dataDir, "run", "token"));
  const bound = api.server.address();
  const apiUrl = ingressApi?.url ?? (config.tls && boundAddress(bound, config, "https"));
  const ready = {
    api: boundAddress(bound, config, "http"),
    ...(apiUrl === undefined ? {} : { api_url: apiUrl }),
    specs_dir: config.specsDir,
    data_dir: config.dataDir,
    instance: store.instanceId,
    pid: process.pid,
    version,
    docker_host: config.dockerHost,
  };
  await writeReadyFile(join(config.dataDir, "run", "berth.json"), ready);
  const { listen: address, tls, apiDomain } = config;
  const exposure = findPlainExposure(address.host, { hasTls: tls !== undefined, apiDomain });
  for (const warning of [exposure, tls && findKeyExposure(tls)])
    if (warning) logger.warn({ hint: warning.hint }, warning.message);
  const { specs_dir: folder, instance } = ready;
  logger.info({ api: apiUrl ?? ready.api, specs: folder, instance }, "berth is up");

  // The daemons are ended first, concurrently with the other parts, because ending them may take most of the time
  // limit.
  starting.defer(() => {
    for (const daemon of [companion, assistant]) void daemon.end().catch(() => {});
  });
  return createRunningServer(
    starting.move(),
    password === undefined ? ready : { ...ready, password },
  );
}

/**
 * Returns the folders that tokens of scope `write` may mount. With a remote engine, no folder may be mounted, because
 * the links below a folder can only be checked on the engine's machine. No token of scope `write` may mount a folder
 * whose content Berth trusts or keeps secret.
 */
function readHostPaths(config: Config) {
  const { specsDir, assistant, templatesDir, files } = config;
  return {
    allowed: config.dockerHost.startsWith("unix:") ? config.hostPathAllow : [],
    reserved: [specsDir, assistant?.dataDir, templatesDir, ...files].filter(
      (path) => path !== undefined,
    ),
  };
}
