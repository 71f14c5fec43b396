import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Static, Type } from "typebox";
import type { Environment } from "../base/environment.ts";
import { BerthError } from "../base/errors.ts";
import { Shape } from "../base/shape.ts";
import { originOf, type Target } from "../client/rest/target.ts";
import { loadConfig } from "../config/config.ts";
import { type Credentials, readCredentials } from "./credentials.ts";
import { isAlive } from "./process.ts";

/** The file `<data-dir>/run/berth.json`, and the object of the line `berth ready {json}`. */
export const ReadyFile = Type.Object({
  api: Type.String(),
  data_dir: Type.String(),
  specs_dir: Type.String(),
  instance: Type.String(),
  pid: Type.Integer(),
  version: Type.String(),
  docker_host: Type.String(),
});
export type ReadyFile = Static<typeof ReadyFile>;

const readyFile = new Shape<ReadyFile>(ReadyFile);

export interface TargetOptions {
  readonly url?: string | undefined;
  readonly dataDir?: string | undefined;
  readonly config?: string | undefined;
  readonly environment: Environment;
  readonly workingDirectory: string;
}

/**
 * Which server to talk to, and with which token: --url or BERTH_URL; else the server of this machine's data
 * directory, with its local token; else the server of the last `berth login`. BERTH_TOKEN replaces any token.
 * Throws BerthError `server_unreachable` with the commands to try where there is none.
 */
export function findTarget(options: TargetOptions): Target {
  const { environment } = options;
  const tokenOfEnvironment = environment["BERTH_TOKEN"] || undefined;
  const named = options.url ?? (environment["BERTH_URL"] || undefined);
  if (named !== undefined) {
    const url = originOf(named);
    return {
      url: named,
      token: tokenOfEnvironment ?? tokenFor(url, options),
      origin: options.url === undefined ? "BERTH_URL" : "--url",
    };
  }
  const dataDir = dataDirOf(options);
  const local = readReadyFile(dataDir);
  const here: Target | undefined =
    local === undefined
      ? undefined
      : {
          url: local.api,
          token: tokenOfEnvironment ?? localToken(dataDir),
          origin: "local",
          instance: local.instance,
        };
  if (local !== undefined && here !== undefined && isAlive(local.pid)) return here;
  const saved = options.dataDir === undefined ? readCredentials(environment) : undefined;
  if (saved?.current !== undefined)
    return {
      url: saved.current,
      token: tokenOfEnvironment ?? savedToken(saved, saved.current),
      origin: "login",
    };
  // Its process cannot be seen from here; that may be so in a container, and the server be well.
  if (here !== undefined) return here;
  throw new BerthError(
    "server_unreachable",
    `no Berth server runs on the data directory ${dataDir}, and none was logged in to`,
    { hint: "`berth up` starts one here; `berth login URL` connects to one elsewhere" },
  );
}

/** Undefined where no server has run on that data directory, or it cannot be read by this user. */
export function readReadyFile(dataDir: string): ReadyFile | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(dataDir, "run/berth.json"), "utf8"));
    return readyFile.fits(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function localToken(dataDir: string): string | undefined {
  try {
    return readFileSync(join(dataDir, "run/token"), "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

function dataDirOf(options: TargetOptions): string {
  return loadConfig({
    flags: { data_dir: options.dataDir, config: options.config },
    environment: options.environment,
    workingDirectory: options.workingDirectory,
  }).dataDir;
}

/** A server named by its URL may be the local one, or one that was logged in to. */
function tokenFor(origin: string, options: TargetOptions): string | undefined {
  const dataDir = dataDirOf(options);
  const local = readReadyFile(dataDir);
  const token =
    local !== undefined && sameServer(local.api, origin) ? localToken(dataDir) : undefined;
  return token ?? savedToken(readCredentials(options.environment), origin);
}

function sameServer(a: string, b: string): boolean {
  return loopbackPlain(a) === loopbackPlain(b);
}

/** localhost and 127.0.0.1 are one server to people, so they are here. */
function loopbackPlain(url: string): string {
  return originOf(url).replace(/\/\/(localhost|\[::1\])(?=:|$)/, "//127.0.0.1");
}

function savedToken(credentials: Credentials, origin: string): string | undefined {
  return credentials.servers[originOf(origin)]?.token;
}
