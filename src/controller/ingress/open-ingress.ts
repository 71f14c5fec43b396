import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import type { Config } from "../../base/config.ts";
import { BerthError, isAbort, messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { Store } from "../../store/store.ts";
import type { ContainerRuntime } from "../runtime/port.ts";
import { CaddyContainer } from "./caddy-container.ts";
import type { CaddyHost, IngressPaths } from "./caddy-host.ts";
import { CaddyIngress } from "./caddy-ingress.ts";
import { CaddyProcess, findCaddy } from "./caddy-process.ts";
import { ConfigLoader } from "./config-loader.ts";
import { FolderTable } from "./folder-table.ts";
import { ingressPaths } from "./ingress-paths.ts";
import { noIngress } from "./no-ingress.ts";
import type { Ingress } from "./port.ts";
import { findReach } from "./reach.ts";

const KEY = "ingress.mode";
/** Berth's start waits so long for an image of Caddy, where no Caddy is on the machine. */
const PULL_LIMIT_MS = 20_000;
/** And so long for the engine, to find out how containers are reached. */
const ENGINE_LIMIT_MS = 5_000;

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

export interface OpenedIngress extends Ingress, AsyncDisposable {
  /** Begins to look after Caddy. Disposing ends that, and leaves Caddy running. */
  start(signal: AbortSignal): void;
  /** Ends Caddy. */
  stop(signal: AbortSignal): Promise<void>;
}

/** Decides how the ingress runs, and makes it ready to be started. Throws BerthError where what was asked for cannot be had. */
export async function openIngress(
  options: OpenIngressOptions,
  signal: AbortSignal,
): Promise<OpenedIngress> {
  const { config, store, runtime, clock, logger } = options;
  const { httpPort, httpsPort, acmeEmail, baseDomain } = config;
  if (config.ingress === "off") return off(noIngress.state());
  if (httpPort === undefined && httpsPort === undefined)
    return off({ ready: false, message: "there is no ingress: it has no port (--http-port)" });
  const paths = await ingressPaths(config.dataDir);
  const host = await chooseHost(options, paths, signal);
  if (host === undefined) {
    const message =
      "there is no ingress: no Caddy was found on this machine, and no image of it could be had. Install caddy, or choose an image with --ingress-image; apps are published on loopback ports until then";
    logger.warn({ image: config.ingressImage }, message);
    return off({ ready: false, message });
  }
  const table = new FolderTable({ folder: join(paths.folder, "table"), clock });
  await table.prepare();
  const reach =
    host.mode === "container"
      ? "address"
      : await findReach({
          runtime,
          store,
          dockerHost: config.dockerHost,
          signal: AbortSignal.any([signal, AbortSignal.timeout(ENGINE_LIMIT_MS)]),
        }).catch((error: unknown) => {
          if (signal.aborted) throw error;
          return "published" as const;
        });
  logger.info({ mode: host.mode, reach }, "the ingress");
  const settings = { httpPort, httpsPort, acmeEmail };
  return new CaddyIngress({
    host,
    loader: new ConfigLoader({ host, paths, settings, clock, logger }),
    table,
    reach,
    store,
    baseDomain,
    httpPort,
    httpsPort,
    clock,
    logger,
    onChanged: options.onChanged,
  });
}

/** Undefined: with `auto`, none can be had. The way that was chosen before is kept while it can be gone. */
async function chooseHost(
  options: OpenIngressOptions,
  paths: IngressPaths,
  signal: AbortSignal,
): Promise<CaddyHost | undefined> {
  const { config, store, clock } = options;
  const { httpPort, httpsPort } = config;
  const asProcess = async (): Promise<CaddyHost | undefined> => {
    const program = await findCaddy(options.searchPath);
    if (program === undefined) return undefined;
    const environment = { PATH: options.searchPath };
    return new CaddyProcess({ program, paths, clock, httpPort, httpsPort, environment });
  };
  const asContainer = async (): Promise<CaddyHost> =>
    new CaddyContainer({
      runtime: options.runtime,
      instance: store.instanceId,
      image: config.ingressImage,
      paths,
      httpPort,
      httpsPort,
      user: await containerUser(config.dockerHost),
    });
  if (config.ingress === "container") {
    if (!config.dockerHost.startsWith("unix:"))
      throw new BerthError(
        "invalid_request",
        "--ingress container needs an engine on this machine: it shares a folder with the container",
        { hint: "install caddy on this machine and use --ingress process, or --ingress off" },
      );
    return asContainer();
  }
  if (config.ingress === "process") {
    const host = await asProcess();
    if (!host)
      throw new BerthError("invalid_request", "--ingress process needs caddy on this machine", {
        hint: "install it (apt install caddy), or use --ingress container",
      });
    return host;
  }
  const before = store.settings.get(KEY);
  const found = before === "container" ? undefined : await asProcess();
  const host =
    found ??
    ((await canHaveImage(options, before === "container", signal))
      ? await asContainer()
      : await asProcess());
  if (host) store.settings.set(KEY, host.mode);
  return host;
}

/** The image is on the engine, or can be pulled soon. An engine that is away keeps nobody from what was chosen before. */
async function canHaveImage(
  options: OpenIngressOptions,
  wasChosen: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  const { runtime, config, logger } = options;
  if (!config.dockerHost.startsWith("unix:")) return false;
  const bound = AbortSignal.any([signal, AbortSignal.timeout(PULL_LIMIT_MS)]);
  try {
    if (await runtime.inspectImage(config.ingressImage, bound)) return true;
    await runtime.pullImage(config.ingressImage, undefined, () => {}, bound);
    return true;
  } catch (error) {
    if (signal.aborted) throw error;
    if (wasChosen && error instanceof BerthError && error.code === "engine_unreachable")
      return true;
    const cause = isAbort(error) ? "it took too long" : messageOf(error);
    logger.debug({ error: cause }, "no image of caddy");
    return false;
  }
}

/**
 * What is written into the folder by the container has to be this user's. With an engine that runs as root it is
 * that user's number; with one of this user, root inside is this user.
 */
async function containerUser(dockerHost: string): Promise<string | undefined> {
  const uid = process.getuid?.();
  const gid = process.getgid?.();
  if (uid === undefined || gid === undefined || uid === 0) return undefined;
  const socket = await stat(dockerHost.replace(/^unix:\/\//, "")).catch(() => undefined);
  return socket?.uid === uid ? undefined : `${uid}:${gid}`;
}

function off(state: ReturnType<Ingress["state"]>): OpenedIngress {
  return {
    ...noIngress,
    state: () => state,
    start: () => {},
    stop: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
