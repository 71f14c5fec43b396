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
  /**
   * The engine's names for settings of the container that Berth never sets, and that differ from the engine's defaults.
   */
  readonly foreign: readonly string[];
}

/** The settings of a process in a container. An image declares defaults for them. */
export interface ProcessSettings {
  /** The variables as `NAME=value`. They contain secrets and are never logged. */
  readonly env: readonly string[];
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly user: string;
  readonly workingDir: string;
}
