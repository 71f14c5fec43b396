/**
 * A container engine, as reconcilers see it. Nothing here assumes that containers run on one host,
 * or that an app is reached through a port of the host: Docker is the first adapter, Docker Swarm
 * will be the second.
 *
 * Every call takes a signal and has a time limit of its own. Errors are BerthErrors:
 * `engine_unreachable` (no answer, or cut; whether the action happened is unknown),
 * `image_not_found`, `registry_denied`, `name_clash`, `port_taken`, `disk_full`, and
 * `engine_error` for anything else that the engine said. NotFoundError only where a method names it.
 */
export interface ContainerRuntime {
  /** Engine facts; throws `engine_unreachable`. */
  info(signal: AbortSignal): Promise<EngineInfo>;
  /**
   * Whether the engine takes calls, asked over a connection of its own: an engine that shuts down lets nobody
   * in any more before it ends its containers, but goes on answering those that are in. Throws `engine_unreachable`.
   */
  ping(signal: AbortSignal): Promise<void>;

  /** Containers that carry this instance's label, with everything the plan compares. */
  listContainers(
    filter: { readonly instance: string; readonly app?: string },
    signal: AbortSignal,
  ): Promise<ObservedContainer[]>;

  /**
   * Makes a container, not started. Idempotent: when a container of that name with the same labels
   * is there already (a lost reply), its id is returned; with other labels it throws `name_clash`.
   * Throws `image_not_found` when the engine does not hold the image.
   */
  createContainer(spec: ContainerSpec, signal: AbortSignal): Promise<string>;
  /**
   * Starting a running container does nothing. One whose network was removed and made anew since it ran is joined
   * to that. Throws NotFoundError, `port_taken`, `engine_error` (cannot be executed, its network is gone).
   */
  startContainer(id: string, signal: AbortSignal): Promise<void>;
  /** SIGTERM, then SIGKILL after `graceMs`. A container that is stopped or gone is done. */
  stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void>;
  /** Kills and removes, with anonymous volumes. A container that is gone is done. */
  removeContainer(id: string, signal: AbortSignal): Promise<void>;
  /** Gives the container its name back. Throws `name_clash`, NotFoundError. */
  renameContainer(id: string, name: string, signal: AbortSignal): Promise<void>;
  /** Joins a network under an alias; joining twice does nothing. */
  connectNetwork(
    id: string,
    network: string,
    aliases: readonly string[],
    signal: AbortSignal,
  ): Promise<void>;

  /** Idempotent. A network of that name without the labels is a `name_clash`. */
  ensureNetwork(name: string, labels: Labels, signal: AbortSignal): Promise<void>;
  /** Its ranges of addresses, such as 172.18.0.0/16; none for a network that is not there. */
  networkSubnets(name: string, signal: AbortSignal): Promise<readonly string[]>;
  /**
   * The address of IPv4 that `hostAliases` stand for in containers of this network; undefined where the
   * engine does not tell. It is an address of the machine that the engine runs on, which may be another one.
   */
  hostGateway(network: string, signal: AbortSignal): Promise<string | undefined>;
  /** Missing, or still in use by others, is done. */
  removeNetwork(name: string, signal: AbortSignal): Promise<void>;
  /** Idempotent; an existing volume of that name is used only when it carries the labels (`name_clash`). */
  ensureVolume(name: string, labels: Labels, signal: AbortSignal): Promise<void>;
  /** Missing is done. Throws `engine_error` while a container, running or not, uses it. */
  removeVolume(name: string, signal: AbortSignal): Promise<void>;
  listVolumes(
    filter: { readonly instance: string; readonly app?: string },
    signal: AbortSignal,
  ): Promise<ObservedVolume[]>;

  /** Undefined where the engine does not hold it. */
  inspectImage(reference: string, signal: AbortSignal): Promise<ImageInfo | undefined>;
  /** Throws `image_not_found`, `registry_denied`, `disk_full`, `engine_unreachable`. */
  pullImage(
    reference: string,
    auth: RegistryAuth | undefined,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /**
   * Makes an image of a build context (an uncompressed tar stream, which is read to its end or destroyed).
   * The same context and options give the same image, as far as the engine's cache reaches; an older
   * image that loses the tag stays without one. Limits hold with the classic builder only, credentials
   * go to their own server only, with both.
   * Throws `build_failed` with the failing step and its last lines (`details.exitCode` where a command
   * ended with one; a step that the engine itself ended is `engine_error`), `image_not_found` and
   * `registry_denied` for a base image, `disk_full`, `engine_unreachable`. An aborted signal ends the build on the engine.
   */
  buildImage(
    context: AsyncIterable<Uint8Array>,
    options: BuildImageOptions,
    onOutput: (line: BuildOutput) => void,
    signal: AbortSignal,
  ): Promise<{ readonly imageId: string; readonly bytes: number }>;
  /** Images that carry the label of this instance's builds (IMAGE_PREFIX). */
  listImages(filter: { readonly instance: string }, signal: AbortSignal): Promise<BuiltImageInfo[]>;
  /** Bytes that are free where the engine keeps images; undefined where that cannot be told. */
  freeBytes(signal: AbortSignal): Promise<number | undefined>;
  /**
   * A tag, or an image by its id with all its tags. Missing, or in use by a container, is done:
   * returns false then.
   */
  removeImage(reference: string, signal: AbortSignal): Promise<boolean>;

  /**
   * Lines of one container, oldest first, then (with follow) as they come until it ends or the
   * signal aborts. A line longer than 64 KiB comes in pieces.
   */
  logs(id: string, options: LogOptions, signal: AbortSignal): AsyncIterable<LogLine>;
  /** Runs a command inside; output is the last 4 KiB of both streams. Throws NotFoundError, `timeout`. */
  exec(
    id: string,
    command: readonly string[],
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<{ exitCode: number; output: string }>;
  /** One health probe. An unhealthy container is an answer, not an error. */
  probe(
    id: string,
    probe: ProbeTarget,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<ProbeResult>;
  /** TCP ports on which processes inside listen; undefined where that cannot be told. */
  listeningPorts(id: string, signal: AbortSignal): Promise<readonly number[] | undefined>;

  /**
   * Events of this instance's containers, for ever: reconnects by itself with `since`, and says so,
   * because what happened meanwhile is unknown. Hints only: a reader that misses one loses no truth.
   */
  events(filter: { readonly instance: string }, signal: AbortSignal): AsyncIterable<RuntimeEvent>;
}

export type Labels = Readonly<Record<string, string>>;

export interface EngineInfo {
  readonly name: "docker" | "podman" | "fake";
  readonly version: string;
  readonly apiVersion: string;
  readonly os: string;
  readonly arch: string;
  readonly cpus: number;
  readonly memoryBytes: number;
}

export interface ContainerSpec {
  readonly name: string;
  readonly image: string;
  readonly labels: Labels;
  /** `NAME=value`, in the order that the container sees. Holds secrets: never logged. */
  readonly env: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly user?: string;
  readonly workingDir?: string;
  readonly network: string;
  /** Names under which other containers of the network reach this one. */
  readonly aliases: readonly string[];
  /** Names under which the container reaches the machine that the engine runs on. */
  readonly hostAliases?: readonly string[];
  readonly mounts: readonly MountSpec[];
  /** Ports that the engine publishes; empty behind an ingress that shares the network. */
  readonly publish: readonly PublishSpec[];
  readonly memoryBytes?: number;
  readonly nanoCpus?: number;
  readonly stopGraceMs: number;
}

export type MountSpec =
  | {
      readonly type: "volume";
      readonly volume: string;
      readonly path: string;
      readonly readOnly: boolean;
    }
  | {
      readonly type: "bind";
      readonly hostPath: string;
      readonly path: string;
      readonly readOnly: boolean;
    };

export interface PublishSpec {
  readonly containerPort: number;
  readonly protocol: "tcp" | "udp";
  readonly hostAddress: string;
  /** 0: the engine picks one. */
  readonly hostPort: number;
}

/** dead: the engine can do nothing with it any more but remove it. */
export type ContainerState =
  | "created"
  | "running"
  | "paused"
  | "restarting"
  | "removing"
  | "exited"
  | "dead";

export interface ObservedContainer {
  readonly id: string;
  readonly name: string;
  readonly labels: Labels;
  /** As it was asked for, and the id that it resolved to. */
  readonly image: string;
  readonly imageId: string;
  readonly state: ContainerState;
  /** Set once it has ended; null while it runs or before it ran. */
  readonly exitCode: number | null;
  readonly oomKilled: boolean;
  /** What the engine says of a start that failed. */
  readonly error: string | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly networks: readonly string[];
  /** Limits as they are now, to notice an edit by hand; null where there is none. */
  readonly memoryBytes: number | null;
  readonly nanoCpus: number | null;
  /** Its address on each network that it is on, while it runs. */
  readonly networkAddresses: Readonly<Record<string, string>>;
  /** Where each published TCP port is reached from this machine, as host:port. */
  readonly addresses: readonly { readonly containerPort: number; readonly address: string }[];
}

export interface ObservedVolume {
  readonly name: string;
  readonly labels: Labels;
}

export interface ImageInfo {
  readonly id: string;
  readonly exposedPorts: readonly number[];
}

export interface BuildImageOptions {
  readonly tag: string;
  readonly labels: Labels;
  /** In the context. */
  readonly dockerfile: string;
  readonly target?: string | undefined;
  readonly args: Readonly<Record<string, string>>;
  /** classic: limits hold, any engine; buildkit: cache and secret mounts, where the engine has it. */
  readonly builder: "classic" | "buildkit";
  /** For base images. */
  readonly auths: readonly RegistryAuth[];
  readonly memoryBytes?: number | undefined;
  readonly nanoCpus?: number | undefined;
  readonly noCache?: boolean;
}

export type BuildOutput =
  | {
      readonly type: "step";
      readonly number: number;
      readonly total: number;
      readonly text: string;
    }
  | { readonly type: "log"; readonly text: string };

export interface BuiltImageInfo {
  readonly id: string;
  readonly tags: readonly string[];
  readonly labels: Labels;
  readonly bytes: number;
  readonly createdAt: string;
}

export interface RegistryAuth {
  readonly server: string;
  readonly username: string;
  readonly password: string;
}

export interface PullProgress {
  readonly currentBytes: number;
  readonly totalBytes: number;
  readonly message: string;
}

export interface LogOptions {
  /** Lines from the end, before following. */
  readonly tail: number;
  readonly follow: boolean;
  /** Epoch milliseconds. */
  readonly sinceMs?: number;
}

export interface LogLine {
  /** RFC 3339 with the engine's precision. */
  readonly time: string;
  readonly stream: "stdout" | "stderr";
  readonly message: string;
}

export type ProbeTarget =
  | { readonly type: "http"; readonly port: number; readonly path: string }
  | { readonly type: "tcp"; readonly port: number }
  | { readonly type: "command"; readonly command: readonly string[] };

export interface ProbeResult {
  readonly healthy: boolean;
  /** What was seen, for the condition's message: "GET /healthz answered 500", "connection refused". */
  readonly message: string;
}

export type RuntimeEvent =
  | { readonly type: "connected" }
  | { readonly type: "disconnected"; readonly message: string }
  /** `action` as the engine names it: start, die, destroy, oom, rename, disconnect, update. */
  | {
      readonly type: "container";
      readonly action: string;
      readonly id: string;
      readonly app: string;
    };
