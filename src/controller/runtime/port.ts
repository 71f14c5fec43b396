import type {
  ContainerSettings,
  MountSpec,
  PublishSpec,
  Restrictions,
  Ulimit,
} from "../container-settings.ts";
import type { EngineHost } from "../engine-host.ts";

/**
 * A container engine. A consumer depends on the part that it needs. Nothing here assumes that containers run on one
 * host, or that an app is reached through a port of the host: Docker is the first adapter, Docker Swarm will be the
 * second.
 *
 * Every call takes a signal and has its own time limit. Errors are BerthErrors: `engine_unreachable` (no answer, or an
 * interrupted one; the action may have happened), `image_not_found`, `registry_denied`, `name_clash`, `port_taken`,
 * `disk_full`, and `engine_error` for any other error of the engine. A method throws NotFoundError only if its comment
 * says so.
 */
export interface ContainerRuntime extends WorkloadRuntime, ImageRuntime, LeaseRuntime, EngineHost {}

/** Containers, and the networks and volumes that they use. */
export interface WorkloadRuntime {
  /** Lists the containers with this instance's label, and all properties that the planner compares with a spec. */
  listContainers(
    filter: { readonly instance: string; readonly app?: string },
    signal: AbortSignal,
  ): Promise<ObservedContainer[]>;
  /**
   * Creates a container without starting it, and returns its id. Idempotent: a container of that name with the same
   * labels (left by a lost reply) is reused; with other labels it is a `name_clash`.
   * Throws `image_not_found` when the engine does not have the image.
   */
  createContainer(spec: ContainerSpec, signal: AbortSignal): Promise<string>;
  /**
   * Starts a container, unless it is running. If the container's network was removed and created again since the last
   * start, the container joins the new network. Throws NotFoundError, `port_taken`, `engine_error` (not executable, or
   * the network is missing).
   */
  startContainer(id: string, signal: AbortSignal): Promise<void>;
  /** Sends SIGTERM, then SIGKILL after `graceMs`. Does nothing if the container is stopped or missing. */
  stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void>;
  /** Kills and removes a container and its anonymous volumes. Does nothing if it is missing. */
  removeContainer(id: string, signal: AbortSignal): Promise<void>;
  /** Renames a container. Throws `name_clash` if another one has the name, or NotFoundError if it is gone. */
  renameContainer(id: string, name: string, signal: AbortSignal): Promise<void>;
  /** Joins a container to a network. Idempotent. */
  connectNetwork(
    id: string,
    network: string,
    endpoint: NetworkEndpoint,
    signal: AbortSignal,
  ): Promise<void>;
  /**
   * Returns the lines of one container, oldest first, and with `follow` also new lines until the container ends or the
   * signal aborts. A line longer than 64 KiB is split.
   */
  logs(id: string, options: LogOptions, signal: AbortSignal): AsyncIterable<LogLine>;
  /** Runs a command; `output` is the last 4 KiB of both streams. Throws NotFoundError (no container) or `timeout`. */
  exec(
    id: string,
    command: readonly string[],
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<{ exitCode: number; output: string }>;
  /** Probes the health of a container once. An unhealthy container is a result, not an error. */
  probe(
    id: string,
    probe: ProbeTarget,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<ProbeResult>;
  /** Returns the TCP ports on which processes of a container listen; undefined if the engine does not allow it. */
  listeningPorts(id: string, signal: AbortSignal): Promise<readonly number[] | undefined>;
  /**
   * Returns the number of TCP connections to a port of a container, idle ones included; undefined if the engine does
   * not allow it, or if the container does not run.
   */
  countConnections(id: string, port: number, signal: AbortSignal): Promise<number | undefined>;
  /**
   * Streams the events of this instance's containers without end. The stream reconnects by itself and then emits
   * `connected`: events in between may be lost. A reader must treat events as hints only.
   */
  events(filter: { readonly instance: string }, signal: AbortSignal): AsyncIterable<RuntimeEvent>;

  /**
   * Creates a network, with reserved addresses if the engine supports them; idempotent. Replaces an existing network
   * without reserved addresses only if no container uses it. Throws `name_clash` if a network of this name does not
   * have `labels`.
   */
  ensureNetwork(name: string, labels: Labels, signal: AbortSignal): Promise<void>;
  /**
   * Creates a network with a subnet from the IPv4 range `pool`, such as 10.213.0.0/16; idempotent. A new network gets
   * the first /26 of the range that no network of the engine and no route of its machine uses, and has no reserved
   * addresses. Throws `engine_error` if none is free, and `name_clash` as `ensureNetwork` does.
   */
  ensureStackNetwork(
    name: string,
    labels: Labels,
    pool: string,
    signal: AbortSignal,
  ): Promise<void>;
  /** Returns the names and labels of the networks of this instance that have the label STACK. */
  listStackNetworks(
    filter: { readonly instance: string },
    signal: AbortSignal,
  ): Promise<readonly ObservedNetwork[]>;
  /** Removes a network; does nothing if it is missing or still in use. */
  removeNetwork(name: string, signal: AbortSignal): Promise<void>;
  /** Creates a volume; idempotent. Throws `name_clash` if a volume of this name does not have `labels`. */
  ensureVolume(name: string, labels: Labels, signal: AbortSignal): Promise<void>;
  /**
   * Removes a volume; does nothing if it is missing. Throws `engine_error` while a container, running or not, uses it.
   */
  removeVolume(name: string, signal: AbortSignal): Promise<void>;
  listVolumes(
    filter: { readonly instance: string; readonly app?: string },
    signal: AbortSignal,
  ): Promise<ObservedVolume[]>;
}

/** Images: pulled from registries, or built from a context. */
export interface ImageRuntime {
  /** Inspects an image. Returns undefined if the engine does not have the image. */
  inspectImage(reference: string, signal: AbortSignal): Promise<ImageInfo | undefined>;
  /**
   * Pulls an image, for a platform such as linux/arm64, or for that of the engine's machine. Returns the digest that
   * the reference had in the registry; undefined if the engine does not report it. Throws
   * `image_not_found`, `registry_denied`, `registry_unreachable`, `disk_full`, `engine_unreachable`.
   */
  pullImage(
    reference: string,
    auth: RegistryAuth | undefined,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
    platform?: string,
  ): Promise<string | undefined>;
  /**
   * Builds an image from a build context (an uncompressed tar stream, which is read to its end or destroyed). The same
   * context and options give the same image as far as the engine's cache allows; an older image that loses the tag is
   * kept without a tag. Limits apply with the classic builder only. Both builders send credentials only to the server
   * that they belong to. Throws `build_failed` with the failed step and its last lines (`details.exitCode` if a command
   * failed; a step that the engine itself ended is `engine_error`), `image_not_found` and `registry_denied` for a base
   * image, `disk_full`, `engine_unreachable`. An aborted signal ends the build on the engine, and removes the layers of
   * the build, and the tag if no image had it before.
   */
  buildImage(
    context: AsyncIterable<Uint8Array>,
    options: BuildImageOptions,
    onOutput: (line: BuildOutput) => void,
    signal: AbortSignal,
  ): Promise<{ readonly imageId: string; readonly bytes: number }>;
  /**
   * Lists the images that have a tag from a build of this instance (see `imageRepository`). Each image has all its
   * tags.
   */
  listImages(filter: { readonly instance: string }, signal: AbortSignal): Promise<BuiltImageInfo[]>;
  /**
   * Removes a tag. For the id of an image, removes the image with all its tags. Returns false if the tag or the image
   * is missing or in use.
   */
  removeImage(reference: string, signal: AbortSignal): Promise<boolean>;
}

export type Labels = Readonly<Record<string, string>>;

/** The attachment of a container to a network: its names and its address there. */
export interface NetworkEndpoint {
  /** Names of this container for other containers of the network. */
  readonly aliases: readonly string[];
  /**
   * The number of the container's address among the reserved addresses of the network. The engine chooses an address
   * if the network has no such address, or if another container has it when this one is started.
   */
  readonly reservedAddress?: number;
}

export interface ContainerSpec extends NetworkEndpoint {
  readonly name: string;
  readonly image: string;
  /**
   * The id of the image that the container runs, even if the reference stands for another image by now. If
   * undefined, the engine resolves the reference at the creation.
   */
  readonly imageId?: string;
  readonly labels: Labels;
  /**
   * `NAME=value`, in the order that the container sees. The values may be secrets, so they are
   * never logged.
   */
  readonly env: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly user?: string;
  readonly workingDir?: string;
  readonly network: string;
  /**
   * Further networks of the container. `createContainer` does not connect it to them: the caller does so with
   * `connectNetwork` before the first start.
   */
  readonly furtherNetworks?: readonly {
    readonly network: string;
    readonly aliases: readonly string[];
  }[];
  /** Names that resolve to the engine's machine in the container. */
  readonly hostAliases?: readonly string[];
  readonly mounts: readonly MountSpec[];
  /** The ports that the engine publishes on the machine; empty if the ingress can reach the container's own address. */
  readonly publish: readonly PublishSpec[];
  /** Default: none. */
  readonly restrictions?: Restrictions;
  /** The platform of the image, such as linux/arm64. Default: that of the engine's machine. */
  readonly platform?: string;
  /** Default: those of the engine. */
  readonly ulimits?: readonly Ulimit[];
  /** The host name that the container has for its own programs. Default: the engine chooses it. */
  readonly hostname?: string;
  /** The size of /dev/shm in bytes. Default: that of the engine, which is 64 MiB. */
  readonly shmBytes?: number;
  readonly memoryBytes?: number;
  readonly nanoCpus?: number;
  readonly stopGraceMs: number;
}

/** dead: the engine can only remove the container. */
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
  /** The reference in the container's spec; `imageId` is the id of the image that the container runs. */
  readonly image: string;
  readonly imageId: string;
  readonly state: ContainerState;
  /** The exit code; null while the container runs, and before its first start. */
  readonly exitCode: number | null;
  readonly oomKilled: boolean;
  /** True if the last start failed because another program has a host port that the container publishes. */
  readonly isPortTaken: boolean;
  /** The engine's message about a failed start. */
  readonly error: string | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly networks: readonly string[];
  /** The memory and CPU limits that the container has now, which a user may have changed by hand; null for no limit. */
  readonly memoryBytes: number | null;
  readonly nanoCpus: number | null;
  /** The container's address on each network, while it runs. */
  readonly networkAddresses: Readonly<Record<string, string>>;
  /** The reserved address that the container has whenever it runs; null if the engine chooses its address. */
  readonly reservedAddress: string | null;
  /** The address of each published TCP port for this machine, as host:port. */
  readonly addresses: readonly { readonly containerPort: number; readonly address: string }[];
  /**
   * The settings of the container; undefined if the engine reports them in a form that cannot be compared with a spec.
   */
  readonly settings: ContainerSettings | undefined;
}

export interface ObservedNetwork {
  readonly name: string;
  readonly labels: Labels;
}

export interface ObservedVolume {
  readonly name: string;
  readonly labels: Labels;
}

export interface ImageInfo {
  readonly id: string;
  /** The image's digest in the repository of the inspected reference; undefined if the engine knows no such digest. */
  readonly digest?: string | undefined;
  readonly exposedPorts: readonly number[];
  /** The platform of the image, such as linux/amd64 or linux/arm64/v8; undefined if the engine does not report it. */
  readonly platform?: string | undefined;
}

export interface BuildImageOptions {
  readonly tag: string;
  /** The path of the Dockerfile in the build context. */
  readonly dockerfile: string;
  readonly target?: string | undefined;
  /** The platform of the image, such as linux/arm64. Default: that of the engine's machine. */
  readonly platform?: string | undefined;
  readonly args: Readonly<Record<string, string>>;
  /**
   * classic: every engine has this builder, which enforces `memoryBytes` and `nanoCpus`. buildkit: supports cache and
   * secret mounts, if the engine has BuildKit; has no limits.
   */
  readonly builder: "classic" | "buildkit";
  /** Credentials for base images. */
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
  /** The number of lines from the end to return before new ones; Infinity for all. */
  readonly tail: number;
  readonly follow: boolean;
  /** Epoch milliseconds. */
  readonly sinceMs?: number;
}

export interface LogLine {
  /** The time of the line in RFC 3339, with the engine's precision. */
  readonly time: string;
  readonly stream: "stdout" | "stderr";
  readonly message: string;
}

export type ProbeTarget =
  | { readonly type: "http"; readonly port: number; readonly path: string }
  | { readonly type: "tcp"; readonly port: number }
  /** A probe of a web app: healthy if a GET gets a status below 500, or a response that is not HTTP. */
  | { readonly type: "web"; readonly port: number; readonly path: string }
  | { readonly type: "command"; readonly command: readonly string[] };

export interface ProbeResult {
  readonly healthy: boolean;
  /** The result of a probe, for a condition's message: "GET /healthz answered 500", "connection refused". */
  readonly message: string;
  /** True if the port accepted the connection of an HTTP probe and answered nothing. */
  readonly isSilent?: boolean;
}

export type RuntimeEvent =
  | { readonly type: "connected" }
  | { readonly type: "disconnected"; readonly message: string }
  /** `action` is the engine's name of the event: start, die, destroy, oom, rename, connect, disconnect, update. */
  | {
      readonly type: "container";
      readonly action: string;
      readonly id: string;
      readonly app: string;
    };

/**
 * Stores the records of the engine lease (see `EngineLease`) on the engine. Each renewal or takeover of the lease
 * begins a term, which has a number and a record. The records outlive restarts of the engine, and its routine clean-up
 * (`docker system prune`) does not remove them.
 */
export interface LeaseRuntime {
  /**
   * Creates the lease record of a term. The call is atomic: if several processes call it for the same term, the record
   * keeps the labels of the first one, and all calls succeed; `listLeases` returns the labels. Throws `disk_full`.
   */
  createLease(instance: string, term: number, labels: Labels, signal: AbortSignal): Promise<void>;
  /**
   * Returns the records of the lease. A record that exists during the whole call is among them. The order is undefined.
   */
  listLeases(instance: string, signal: AbortSignal): Promise<readonly ObservedLease[]>;
  /** Removes the record of a term of the engine lease; does nothing if the record is missing. */
  removeLease(instance: string, term: number, signal: AbortSignal): Promise<void>;
}

export interface ObservedLease {
  readonly term: number;
  readonly labels: Labels;
}
