/** The properties of the engine and of the machine that the engine runs on. */
export interface EngineHost {
  /**
   * The location of the engine: on this machine or elsewhere. It never changes for one runtime object. Features that
   * need access to the engine's processes, folders or networks depend on it.
   */
  readonly location: EngineLocation;
  /** Returns the name, the version and the capacity of the engine. Throws `engine_unreachable`. */
  info(signal: AbortSignal): Promise<EngineInfo>;
  /**
   * Checks over a new connection that the engine accepts calls: an engine that shuts down accepts no new connection
   * before it ends its containers, but still answers on open ones. Throws `engine_unreachable`.
   */
  ping(signal: AbortSignal): Promise<void>;
  /** Returns the address ranges of a network, such as 172.18.0.0/16; an empty list if the network does not exist. */
  networkSubnets(name: string, signal: AbortSignal): Promise<readonly string[]>;
  /**
   * Returns the range of reserved addresses of a network, such as 172.18.128.0/17; undefined if the network is missing
   * or has none. The engine assigns them only to containers that ask for them (`NetworkEndpoint.reservedAddress`).
   */
  reservedRange(network: string, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Returns the IPv4 address of the engine's machine that `hostAliases` resolve to in containers of this network;
   * undefined if the engine does not report it.
   */
  hostGateway(network: string, signal: AbortSignal): Promise<string | undefined>;
  /** Returns the free bytes on the disk of the images; undefined if the engine runs elsewhere or does not report it. */
  freeBytes(signal: AbortSignal): Promise<number | undefined>;
}

/**
 * The location of an engine, as far as its address shows it:
 * - `this-machine`: the engine shares this machine's kernel, folders and usually its networks;
 * - `loopback`: the engine is behind a TCP port of this machine, perhaps in a virtual machine such as Docker
 *   Desktop's;
 * - `remote`: the engine is on another machine.
 */
export type EngineLocation = "this-machine" | "loopback" | "remote";

export interface EngineInfo {
  readonly name: "docker" | "podman" | "fake";
  readonly version: string;
  readonly apiVersion: string;
  readonly os: string;
  readonly arch: string;
  readonly cpus: number;
  readonly memoryBytes: number;
}
