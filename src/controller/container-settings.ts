/** The settings of a container as a spec gives them to an engine, and as an engine reports them. */

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
  /** The port of the machine; 0 lets the engine choose one. */
  readonly hostPort: number;
}

/** The settings with which a container was created, for the comparison with a spec (`findDifferences`). */
export interface ContainerSettings extends ProcessSettings {
  /** The reference or the id of the image that the container was created from. */
  readonly image: string;
  /** The settings of the image; undefined if the engine has lost the image. */
  readonly imageDefaults: ProcessSettings | undefined;
  /** The network that the container was created on, or the engine's name of another mode, such as `host`. */
  readonly networkMode: string;
  /** The names of the container on each network; the engine adds its own names. */
  readonly aliases: Readonly<Record<string, readonly string[]>>;
  readonly hostAliases: readonly string[];
  /** The mounts, except the anonymous volumes that the image declares. */
  readonly mounts: readonly MountSpec[];
  readonly publish: readonly PublishSpec[];
  readonly restrictions: Restrictions;
  /** The limits of processes, with those that the engine gives to every container. */
  readonly ulimits: readonly Ulimit[];
  /** The container's host name for its own programs; by default, the engine sets the short id of the container. */
  readonly hostname: string;
  /** The size of /dev/shm in bytes; 0 if the engine does not report it. */
  readonly shmBytes: number;
  /**
   * The engine's names for settings of the container that Berth never sets, and that differ from the engine's defaults.
   */
  readonly foreign: readonly string[];
}

/** A limit of the processes in a container, by the name that the kernel gives it; -1 is no limit. */
export interface Ulimit {
  readonly name: string;
  readonly soft: number;
  readonly hard: number;
}

/** What the engine does not let a container do. */
export interface Restrictions {
  readonly readOnlyRoot: boolean;
  /** Capabilities of Linux without the prefix CAP_, such as NET_RAW, or ALL. */
  readonly dropCapabilities: readonly string[];
  readonly noNewPrivileges: boolean;
  /** Folders whose content is in memory, each with its size in bytes; undefined for no limit of its own. */
  readonly tmpfs: readonly { readonly path: string; readonly sizeBytes: number | undefined }[];
}

export const NO_RESTRICTIONS: Restrictions = {
  readOnlyRoot: false,
  dropCapabilities: [],
  noNewPrivileges: false,
  tmpfs: [],
};

/** The settings of a process in a container. An image declares defaults for them. */
export interface ProcessSettings {
  /** The variables as `NAME=value`. They contain secrets and are never logged. */
  readonly env: readonly string[];
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly user: string;
  readonly workingDir: string;
}
