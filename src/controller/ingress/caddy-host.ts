import type { CaddyConfig } from "./caddy-config.ts";
import type { Ingress } from "./port.ts";

/** Runs Caddy, as a process of this machine or as a container. */
export interface CaddyHost {
  readonly mode: Exclude<Ingress["mode"], "off">;
  /** Returns a version such as 2.6.2; undefined if the version is known only while Caddy runs. */
  version(signal: AbortSignal): Promise<string | undefined>;
  /**
   * Starts Caddy with this configuration unless it is running; replaces a Caddy that runs with other settings. Throws
   * BerthError `port_taken`, `image_not_found`, `engine_unreachable`, `internal`.
   */
  start(config: CaddyConfig, signal: AbortSignal): Promise<void>;
  /** Returns false for a running Caddy with other settings, such as other ports. */
  isUpToDate(signal: AbortSignal): Promise<boolean>;
  /** Returns true if Caddy's process or container exists, even if Caddy does not answer yet. */
  isRunning(signal: AbortSignal): Promise<boolean>;
  /** Throws `port_taken` if a port is not available. `ports` are the ports that Caddy does not use yet. */
  assertPortsAvailable(ports: readonly number[], signal: AbortSignal): Promise<void>;
  /** Returns Caddy's error message for this configuration without loading it; undefined if it is valid. */
  validate(config: CaddyConfig, signal: AbortSignal): Promise<string | undefined>;
  /** Stops Caddy. Does nothing if it is not running. */
  stop(signal: AbortSignal): Promise<void>;
  /** Called when Caddy exits unexpectedly, if this kind of host notices the exit. */
  onExit: () => void;
}

/**
 * Returns the environment variables of Caddy's process. All files of the process are in `folder`. GOGC=400 collects
 * garbage after the heap has grown fivefold instead of twofold, which saves CPU time and costs some 15 MB of memory.
 */
export function caddyEnvironment(folder: string): Readonly<Record<string, string>> {
  return { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder, GOGC: "400" };
}

/** The files that Caddy and Berth share. The paths are the same for both, even if Caddy runs in a container. */
export interface IngressPaths {
  readonly folder: string;
  /** The path of Caddy's admin socket, a Unix socket. Such a path must be shorter than 108 bytes. */
  readonly adminSocket: string;
  /** The Unix socket on which Berth accepts requests to its API. */
  readonly apiSocket: string;
  readonly configFile: string;
  /**
   * The file in which Berth stores the direct routes of the loaded configuration (see direct-routes.ts). Caddy does not
   * read this file.
   */
  readonly directRoutesFile: string;
}
