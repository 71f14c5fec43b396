import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../base/clock.ts";
import { BerthError, getErrorMessage, isAbortError } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { createTimeLimit } from "../base/time-limit.ts";
import type { Config } from "../config/config.ts";
import { CaddyCertificates } from "../controller/ingress/caddy-certificates.ts";
import { getStorageFolder } from "../controller/ingress/caddy-config.ts";
import { CaddyConfigLoader } from "../controller/ingress/caddy-config-loader.ts";
import { CaddyContainer } from "../controller/ingress/caddy-container.ts";
import type { CaddyHost, IngressPaths } from "../controller/ingress/caddy-host.ts";
import { CaddyIngress } from "../controller/ingress/caddy-ingress.ts";
import { CaddyProcess, findCaddy } from "../controller/ingress/caddy-process.ts";
import { FolderRouteTable } from "../controller/ingress/folder-route-table.ts";
import { findHostReachability } from "../controller/ingress/host-reachability.ts";
import { ingressPaths } from "../controller/ingress/ingress-paths.ts";
import { noIngress } from "../controller/ingress/no-ingress.ts";
import type { Ingress } from "../controller/ingress/port.ts";
import { parseDockerHost } from "../controller/runtime/docker-address.ts";
import type { ContainerRuntime } from "../controller/runtime/port.ts";
import type { Store } from "../store/store.ts";

const MODE_SETTING = "ingress.mode";
/** Which way the last run went, whoever chose it. */
const LAST_MODE_SETTING = "ingress.ran";
/** Berth's start waits so long for an image of Caddy, where no Caddy is on the machine. */
const PULL_LIMIT_MS = 20_000;
/** And so long for the engine, to find out how containers are reached. */
const ENGINE_LIMIT_MS = 5_000;
const END_LIMIT_MS = 20_000;

const OFF_MESSAGE = noIngress.state().message;
const NO_CADDY_MESSAGE =
  "there is no ingress: no Caddy was found on this machine, and no image of it could be had. Install caddy (apt install caddy) or choose an image with --ingress-image, and start Berth again; until then apps are published on loopback ports";

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
  >;
  readonly store: Pick<Store, "instanceId" | "list" | "secrets" | "watch" | "settings">;
  readonly runtime: ContainerRuntime;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The verdict on this App, or what the proxy is, has changed. */
  readonly onChanged: (app: string) => void;
  /** Where programs are looked for, as in PATH. */
  readonly searchPath: string;
}

export interface ManagedIngress extends Ingress, AsyncDisposable {
  /** Begins to look after Caddy. Disposing ends that, and leaves Caddy running. */
  start(signal: AbortSignal): void;
  /** Ends Caddy. */
  stop(signal: AbortSignal): Promise<void>;
}

/**
 * Decides how the ingress runs, and makes it ready to be started. A Caddy that an earlier run left in
 * another way is ended: it would hold the ports. Throws BerthError where what was asked for cannot be had.
 */
export async function openIngress(
  options: OpenIngressOptions,
  signal: AbortSignal,
): Promise<ManagedIngress> {
  const { config, store, clock, logger } = options;
  const { httpPort, httpsPort, acmeEmail, baseDomain } = config;
  const paths = await ingressPaths(config.dataDir);
  const host = await chooseHost(options, paths, signal);
  await stopPreviousIngress(options, paths, "mode" in host ? host.mode : "off", signal);
  const table = new FolderRouteTable({ folder: join(paths.folder, "table"), clock });
  if (!("mode" in host)) {
    // Apps change while nobody keeps the table: a later run would take what stands in it for true.
    await table.clear();
    return createDisabledIngress(host.message);
  }
  await table.prepare();
  const reach =
    host.mode === "container" ? "address" : await determineReachability(options, signal);
  logger.info({ mode: host.mode, reach }, "the ingress is chosen");
  const settings = { httpPort, httpsPort, acmeEmail };
  return new CaddyIngress({
    host,
    loader: new CaddyConfigLoader({ host, paths, settings, clock, logger }),
    table,
    certificates: new CaddyCertificates(getStorageFolder(paths.folder)),
    reachability: reach,
    store,
    baseDomain,
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
      // It is tried again at the next start.
      logger.warn(
        { error: getErrorMessage(error), mode: before },
        "an earlier ingress may run still",
      );
      return;
    }
  }
  store.settings.set(LAST_MODE_SETTING, mode);
}

/** With `auto`, the way that was chosen before is kept while it can be gone. */
async function chooseHost(
  options: OpenIngressOptions,
  paths: IngressPaths,
  signal: AbortSignal,
): Promise<CaddyHost | NoCaddyHost> {
  const { config, store, logger } = options;
  if (config.ingress === "off") return { message: OFF_MESSAGE };
  if (config.httpPort === undefined && config.httpsPort === undefined)
    return { message: "there is no ingress: it has no port (--http-port)" };
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
        hint: "install it (apt install caddy), or use --ingress container",
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
 * Only a first choice, or one after a run without an ingress, may fall back to none: it would make every
 * app anew. What ran before and cannot be had now is tried again and again, and says why it is not there.
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

/** Whether the image is on the engine, or can be pulled soon; unknown where the engine is away, or slow. */
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
    const isAway = error instanceof BerthError && error.code === "engine_unreachable";
    return isSlow || isAway ? "unknown" : "missing";
  }
}

/**
 * What is written into the folder by the container has to be this user's. With an engine that runs as root it is
 * that user's number; with one of this user, root inside is this user.
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
