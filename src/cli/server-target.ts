import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Static, Type } from "typebox";
import { BerthError } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";
import type { Environment } from "../base/process-environment.ts";
import { isProcessRunning } from "../base/running-process.ts";
import { originOf, type ServerTarget } from "../client/rest/server-target.ts";
import { loadConfig } from "../config/config.ts";
import { readSavedLogins, type SavedLogins } from "./saved-logins.ts";

/** The content of the file `<data-dir>/run/berth.json` and of the line `berth ready {json}`. */
export const ReadyFile = Type.Object({
  api: Type.String(),
  api_url: Type.Optional(Type.String()),
  data_dir: Type.String(),
  specs_dir: Type.String(),
  instance: Type.String(),
  pid: Type.Integer(),
  version: Type.String(),
  docker_host: Type.String(),
});
export type ReadyFile = Static<typeof ReadyFile>;

const readyFile = new LazyValidator<ReadyFile>(ReadyFile);

export interface ServerTargetOptions {
  readonly url?: string | undefined;
  readonly dataDir?: string | undefined;
  readonly config?: string | undefined;
  readonly environment: Environment;
  readonly workingDirectory: string;
}

/**
 * Finds the server to talk to and its token: --url or BERTH_URL; else the server of this machine's data directory, with
 * its local token; else the server of the last `berth login`. BERTH_TOKEN replaces any token. Throws BerthError
 * `server_unreachable` with the commands to try if no server is found.
 */
export function findServerTarget(options: ServerTargetOptions): ServerTarget {
  const { environment } = options;
  const environmentToken = environment["BERTH_TOKEN"] || undefined;
  const named = options.url ?? (environment["BERTH_URL"] || undefined);
  if (named !== undefined) {
    const url = originOf(named);
    return {
      url: named,
      token: environmentToken ?? findToken(url, options),
      origin: options.url === undefined ? "BERTH_URL" : "--url",
    };
  }
  const dataDir = resolveDataDir(options);
  const local = readReadyFile(dataDir);
  const localTarget: ServerTarget | undefined =
    local === undefined
      ? undefined
      : {
          url: local.api,
          token: environmentToken ?? readLocalToken(dataDir),
          origin: "local",
          instance: local.instance,
        };
  if (local !== undefined && localTarget !== undefined && isProcessRunning(local.pid))
    return localTarget;
  const saved = options.dataDir === undefined ? readSavedLogins(environment) : undefined;
  if (saved?.current !== undefined)
    return {
      url: saved.current,
      token: environmentToken ?? findSavedToken(saved, saved.current),
      origin: "login",
    };
  // The server's process is not visible here, as is usual in a container, so the server may be running.
  if (localTarget !== undefined) return localTarget;
  throw new BerthError(
    "server_unreachable",
    `no Berth server runs on the data directory ${dataDir}, and there is no saved login`,
    { hint: "`berth up` starts a server here; `berth login URL` connects to a server elsewhere" },
  );
}

/**
 * Reads the ready file; returns undefined if no server has run on the data directory, or if this user cannot read it.
 */
export function readReadyFile(dataDir: string): ReadyFile | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(dataDir, "run/berth.json"), "utf8"));
    return readyFile.isValid(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function readLocalToken(dataDir: string): string | undefined {
  try {
    return readFileSync(join(dataDir, "run/token"), "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

function resolveDataDir(options: ServerTargetOptions): string {
  return loadConfig({
    flags: { data_dir: options.dataDir, config: options.config },
    environment: options.environment,
    workingDirectory: options.workingDirectory,
  }).dataDir;
}

/**
 * Finds the token of a server that is named by its URL: it may be the server of this machine, or one with a saved
 * login.
 */
function findToken(origin: string, options: ServerTargetOptions): string | undefined {
  const dataDir = resolveDataDir(options);
  const local = readReadyFile(dataDir);
  const token =
    local !== undefined && isServer(local, origin) ? readLocalToken(dataDir) : undefined;
  return token ?? findSavedToken(readSavedLogins(options.environment), origin);
}

function isServer({ api, api_url: url }: ReadyFile, origin: string): boolean {
  return normalizeLoopback(api) === normalizeLoopback(origin) || url === originOf(origin);
}

/** Returns the same URL for localhost, [::1] and 127.0.0.1, which name the same server. */
function normalizeLoopback(url: string): string {
  return originOf(url).replace(/\/\/(localhost|\[::1\])(?=:|$)/, "//127.0.0.1");
}

function findSavedToken(credentials: SavedLogins, origin: string): string | undefined {
  return credentials.servers[originOf(origin)]?.token;
}
