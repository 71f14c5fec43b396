import type { CaddyConfig } from "./caddy-config.ts";
import type { Ingress } from "./port.ts";

/** Where Caddy runs: a process of this machine, or a container. Who drives it need not know which. */
export interface CaddyHost {
  readonly mode: Exclude<Ingress["mode"], "off">;
  /** Such as 2.6.2. Undefined where that is only known once it runs. */
  version(signal: AbortSignal): Promise<string | undefined>;
  /**
   * Starts it with this configuration, unless it runs; replaces one that was made in another way. Throws BerthError `port_taken`, `image_not_found`, `engine_unreachable`, `internal`.
   */
  start(config: CaddyConfig, signal: AbortSignal): Promise<void>;
  /** False for one that runs and was made in another way, such as for other ports. */
  isUpToDate(signal: AbortSignal): Promise<boolean>;
  /** True for one that is there, whether or not it answers yet. */
  isRunning(signal: AbortSignal): Promise<boolean>;
  /** Throws `port_taken` where one of these ports of the machine cannot be had; they are not Caddy's now. */
  assertPortsAvailable(ports: readonly number[], signal: AbortSignal): Promise<void>;
  /** What Caddy has against this configuration, without loading it; undefined: nothing. */
  validate(config: CaddyConfig, signal: AbortSignal): Promise<string | undefined>;
  /** Ends it. One that does not run is done. */
  stop(signal: AbortSignal): Promise<void>;
  /** Called when it has ended by itself, where that is noticed at once. */
  onExit: () => void;
}

/** The files that Caddy and Berth share. Paths are the same for both, whatever the mode. */
export interface IngressPaths {
  readonly folder: string;
  /** Of a Unix socket: shorter than 108 bytes. */
  readonly adminSocket: string;
  readonly configFile: string;
}
