import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../base/clock.ts";
import { BerthError, getErrorMessage, isAbortError } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { createTimeLimit } from "../base/time-limit.ts";
import type { Config } from "../config/config.ts";
import { networkName } from "../controller/engine-names.ts";
import { CaddyCertificates } from "../controller/ingress/caddy-certificates.ts";
import { CaddyConfigLoader } from "../controller/ingress/caddy-config-loader.ts";
import { CaddyContainer } from "../controller/ingress/caddy-container.ts";
import type { CaddyHost, IngressPaths } from "../controller/ingress/caddy-host.ts";
import { CaddyIngress } from "../controller/ingress/caddy-ingress.ts";
import { CaddyProcess, findCaddy } from "../controller/ingress/caddy-process.ts";
import { DirectRouteLoads } from "../controller/ingress/direct-route-loads.ts";
import { FolderRouteTable } from "../controller/ingress/folder-route-table.ts";
import { findHostReachability } from "../controller/ingress/host-reachability.ts";
import { ingressPaths } from "../controller/ingress/ingress-paths.ts";
import { noIngress } from "../controller/ingress/no-ingress.ts";
import type { Ingress } from "../controller/ingress/port.ts";
import { parseDockerHost } from "../controller/runtime/docker-address.ts";
import type { ContainerRuntime } from "../controller/runtime/port.ts";
import type { Store } from "../store/store.ts";

const MODE_SETTING = "ingress.mode";
/**
 * The key of the stored setting that contains the mode in which the ingress last ran, for a configured mode as
 * well as for a chosen one.
 */
const LAST_MODE_SETTING = "ingress.ran";
/** The time that the start of Berth waits for an image of Caddy, if this machine has no Caddy. */
const PULL_LIMIT_MS = 20_000;
/** The time that the start of Berth waits for the engine to report how containers are reached. */
const ENGINE_LIMIT_MS = 5_000;
const END_LIMIT_MS = 20_000;

const OFF_MESSAGE = noIngress.state().message;
const NO_CADDY_MESSAGE =
  "there is no ingress: no Caddy was found on this machine, and no image of it could be pulled. Install caddy (apt install caddy) or choose an image with --ingress-image, and start Berth again; until then apps are published on loopback ports";

interface NoCaddyHost {
  readonly message: string;
}

export interface OpenIngressOptions {
  readonly config: Pick<
    Config,
    | "dataDir"
    | "dockerHost"
    | "ingress"
    | "ingressImage"
    | "httpPort"
    | "httpsPort"
    | "acmeEmail"
    | "baseDomain"
    | "apiDomain"
    | "trustedProxies"
  >;
  readonly store: Pick<Store, "instanceId" | "list" | "secrets" | "watch" | "settings">;
  readonly runtime: ContainerRuntime;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Called for an App when the ingress has accepted or refused the App's routes, or when the state of the ingress has
   * changed.
   */
  readonly onChanged: (app: string) => void;
  /** The folders in which Berth looks for programs such as `caddy`, in the format of PATH. */
  readonly searchPath: string;
}

export interface ManagedIngress extends Ingress, AsyncDisposable {
  /** Starts to supervise Caddy. Disposing of the result ends the supervision, but Caddy keeps running. */
  start(signal: AbortSignal): void;
  /** Stops Caddy. */
  stop(signal: AbortSignal): Promise<void>;
}

/**
 * Chooses the mode of the ingress, and prepares the ingress for `start`. Stops a Caddy that an earlier Berth process
 * left in another mode, because it would occupy the ports. Throws BerthError if the configured mode is impossible.
 */
export async function openIngress(
  options: OpenIngressOptions,
  signal: AbortSignal,
): Promise<ManagedIngress> {
  const { config, store, clock, logger } = options;
  const { httpPort, httpsPort, acmeEmail, baseDomain, apiDomain, trustedProxies } = config;
  const paths = await ingressPaths(config.dataDir);
  const host = await chooseHost(options, paths, signal);
  if (!("mode" in host) && apiDomain !== undefined)
    throw new BerthError(
      "invalid_request",
      `the API cannot be served under --api-domain ${apiDomain}: ${host.message}`,
      { hint: "remove --api-domain to start without it" },
    );
  await stopPreviousIngress(options, paths, "mode" in host ? host.mode : "off", signal);
  const table = new FolderRouteTable({ folder: join(paths.folder, "table"), clock });
  if (!("mode" in host)) {
    // Without an ingress, nothing updates the route table. It is cleared, so that a later start with an ingress finds
    // no outdated entries.
    await table.clear();
    return createDisabledIngress(host.message);
  }
  await table.prepare();
  const reach =
    host.mode === "container" ? "address" : await determineReachability(options, signal);
  logger.info({ mode: host.mode, reach }, "the mode of the ingress is chosen");
  const api =
    apiDomain === undefined
      ? undefined
      : { domain: apiDomain, socket: paths.apiSocket, trustedProxies };
  const settings = { httpPort, httpsPort, acmeEmail, api };
  const direct = new DirectRouteLoads({
    table,
    file: paths.directRoutesFile,
    findReservedRange: (loading) => findReservedRange(options, loading),
  });
  return new CaddyIngress({
    host,
    loader: new CaddyConfigLoader({ host, paths, direct, settings, clock, logger }),
    table,
    certificates: new CaddyCertificates(paths.folder, clock),
    reachability: reach,
    store,
    domains: { baseDomain, apiDomain },
    httpPort,
    httpsPort,
    clock,
    logger,
    onChanged: options.onChanged,
  });
}

async function determineReachability(
  { runtime, store, config }: OpenIngressOptions,
  signal: AbortSignal,
): Promise<Ingress["reachability"]> {
  using bound = createTimeLimit(signal, ENGINE_LIMIT_MS);
  const { dockerHost } = config;
  try {
    return await findHostReachability({ runtime, store, dockerHost, signal: bound.signal });
  } catch (error) {
    if (signal.aborted) throw error;
    return "published";
  }
}

/**
 * Returns the range of reserved addresses in the apps' network; undefined if the engine does not answer. Without this
 * range, the address of an App's next container is unknown, so a new direct route applies only until the next rollout
 * of its App.
 */
async function findReservedRange(
  { runtime, store, logger }: OpenIngressOptions,
  signal: AbortSignal,
): Promise<string | undefined> {
  using bound = createTimeLimit(signal, ENGINE_LIMIT_MS);
  try {
    return await runtime.reservedRange(networkName(store.instanceId), bound.signal);
  } catch (error) {
    if (signal.aborted) throw error;
    logger.debug({ error: getErrorMessage(error) }, "the network of the apps is unknown");
    return undefined;
  }
}

async function stopPreviousIngress(
  options: OpenIngressOptions,
  paths: IngressPaths,
  mode: Ingress["mode"],
  signal: AbortSignal,
): Promise<void> {
  const { store, logger } = options;
  const before = store.settings.get(LAST_MODE_SETTING);
  if (before !== mode && (before === "process" || before === "container")) {
    using bound = createTimeLimit(signal, END_LIMIT_MS);
    const other =
      before === "process"
        ? createProcessHost(options, paths, "caddy")
        : await createContainerHost(options, paths);
    try {
      await other.stop(bound.signal);
    } catch (error) {
      if (signal.aborted) throw error;
      // If stopping the earlier ingress fails, the next start of Berth tries it again.
      logger.warn(
        { error: getErrorMessage(error), mode: before },
        "an earlier ingress may still run",
      );
      return;
    }
  }
  store.settings.set(LAST_MODE_SETTING, mode);
}

/** Chooses how Caddy runs. With `auto`, the mode that Berth used last is kept if it is still possible. */
async function chooseHost(
  options: OpenIngressOptions,
  paths: IngressPaths,
  signal: AbortSignal,
): Promise<CaddyHost | NoCaddyHost> {
  const { config, store, logger } = options;
  if (config.ingress === "off") return { message: OFF_MESSAGE };
  if (config.httpPort === undefined && config.httpsPort === undefined)
    return { message: "there is no ingress: neither --http-port nor --https-port is set" };
  if (config.ingress === "container") {
    if (options.runtime.location !== "this-machine")
      throw new BerthError(
        "invalid_request",
        "--ingress container needs an engine on this machine: it shares a folder with the container",
        { hint: "install caddy on this machine and use --ingress process, or --ingress off" },
      );
    return createContainerHost(options, paths);
  }
  const program = await findCaddy(options.searchPath);
  if (config.ingress === "process") {
    if (program === undefined)
      throw new BerthError("invalid_request", "--ingress process needs caddy on this machine", {
        hint: "install Caddy (apt install caddy), or use --ingress container",
      });
    return createProcessHost(options, paths, program);
  }
  const mode = await chooseMode(options, program, signal);
  if (mode === "off") {
    logger.warn({ image: config.ingressImage }, NO_CADDY_MESSAGE);
    return { message: NO_CADDY_MESSAGE };
  }
  store.settings.set(MODE_SETTING, mode);
  return mode === "container"
    ? createContainerHost(options, paths)
    : createProcessHost(options, paths, program ?? "caddy");
}

/**
 * Chooses between process and container. Chooses to run without an ingress only at the first start of Berth, or if
 * Berth had no ingress when it last ran, because a change to no ingress would replace the containers of every App. If
 * the previous mode is impossible now, keeps trying that mode, and reports why the ingress does not run.
 */
async function chooseMode(
  options: OpenIngressOptions,
  program: string | undefined,
  signal: AbortSignal,
): Promise<Ingress["mode"]> {
  const { store, runtime } = options;
  const isLocal = runtime.location === "this-machine";
  const before = store.settings.get(MODE_SETTING);
  const ranWithout = store.settings.get(LAST_MODE_SETTING) === "off";
  if (before === "container" && isLocal && !ranWithout && program === undefined) return "container";
  if (program !== undefined && before !== "container") return "process";
  if (isLocal) {
    const image = await checkImage(options, signal);
    if (image === "there" || (image === "unknown" && before === "container" && !ranWithout))
      return "container";
  }
  if (program !== undefined || (before === "process" && !ranWithout)) return "process";
  return "off";
}

function createProcessHost(
  { config, clock, searchPath }: OpenIngressOptions,
  paths: IngressPaths,
  program: string,
): CaddyHost {
  const { httpPort, httpsPort } = config;
  const environment = { PATH: searchPath };
  return new CaddyProcess({ program, paths, clock, httpPort, httpsPort, environment });
}

async function createContainerHost(
  { config, runtime, store }: OpenIngressOptions,
  paths: IngressPaths,
): Promise<CaddyHost> {
  return new CaddyContainer({
    runtime,
    instance: store.instanceId,
    image: config.ingressImage,
    paths,
    httpPort: config.httpPort,
    httpsPort: config.httpsPort,
    user: await findContainerUser(config.dockerHost),
  });
}

/** Returns `there` if the engine has or pulls Caddy's image, `unknown` if it does not answer, `missing` otherwise. */
async function checkImage(
  { runtime, config, logger }: OpenIngressOptions,
  signal: AbortSignal,
): Promise<"there" | "missing" | "unknown"> {
  using bound = createTimeLimit(signal, PULL_LIMIT_MS);
  try {
    if (await runtime.inspectImage(config.ingressImage, bound.signal)) return "there";
    await runtime.pullImage(config.ingressImage, undefined, () => {}, bound.signal);
    return "there";
  } catch (error) {
    if (signal.aborted) throw error;
    const isSlow = isAbortError(error) || bound.signal.aborted;
    logger.debug(
      { error: isSlow ? "it took too long" : getErrorMessage(error) },
      "no image of caddy",
    );
    const isUnreachable =
      error instanceof BerthError &&
      (error.code === "engine_unreachable" || error.code === "engine_leased");
    return isSlow || isUnreachable ? "unknown" : "missing";
  }
}

/**
 * Returns the user of the container, so that its files belong to the user who runs Berth. If the engine runs as root,
 * returns the id of that user. If that user runs the engine, returns undefined (root in the container).
 */
async function findContainerUser(dockerHost: string): Promise<string | undefined> {
  const uid = process.getuid?.();
  const gid = process.getgid?.();
  if (uid === undefined || gid === undefined || uid === 0) return undefined;
  const address = parseDockerHost(dockerHost);
  if (address.transport !== "unix") return `${uid}:${gid}`;
  const socket = await stat(address.socketPath).catch(() => undefined);
  return socket?.uid === uid ? undefined : `${uid}:${gid}`;
}

function createDisabledIngress(message: string): ManagedIngress {
  return {
    ...noIngress,
    state: () => ({ ready: false, message }),
    start: () => {},
    stop: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
