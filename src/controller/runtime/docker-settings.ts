import type { ContainerInspectInfo } from "dockerode";
import type {
  ContainerSettings,
  MountSpec,
  ProcessSettings,
  PublishSpec,
  Restrictions,
  Ulimit,
} from "../container-settings.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { getHttpStatus } from "./docker-errors.ts";
import { getValueAt, isRecord, numberAt, textAt } from "./docker-json.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";

/** A name that resolves to the engine's machine in every container. */
export const HOST_ALIAS = "host.docker.internal";

/** The maximum number of images whose settings are cached. The settings of an image id never change. */
const IMAGES_KEPT_MAX = 1_000;

/**
 * Reads the settings of containers. Inspects the image of a container only if the settings in the image are not cached.
 */
export class SettingsReader {
  readonly #connection: DockerConnection;
  readonly #images = new Map<string, ProcessSettings>();

  constructor(connection: DockerConnection) {
    this.#connection = connection;
  }

  /** Caches the settings in the result of an image's inspection, so that `read` need not inspect the image. */
  remember(image: unknown): void {
    const id = textAt(image, "Id");
    if (id !== undefined) this.#rememberAs(id, image);
  }

  /**
   * Returns the settings of a container. Returns undefined for Podman, which reports resolved settings instead of those
   * that it was given.
   */
  async read(
    inspected: ContainerInspectInfo,
    signal: AbortSignal,
  ): Promise<ContainerSettings | undefined> {
    const { name } = await this.#connection.version(signal);
    if (name === "podman") return undefined;
    return toSettings(inspected, await this.#readDefaults(inspected.Image, signal));
  }

  async #readDefaults(id: string, signal: AbortSignal): Promise<ProcessSettings | undefined> {
    const known = this.#images.get(id);
    if (known) return known;
    const image = await this.#connection.call(
      `inspect the image ${id}`,
      READ_LIMIT_MS,
      signal,
      async (_, bound) => {
        try {
          return await this.#connection.request(
            { method: "GET", path: `/images/${encodeURIComponent(id)}/json` },
            bound,
          );
        } catch (error) {
          if (getHttpStatus(error) === 404) return undefined;
          throw error;
        }
      },
    );
    return image === undefined ? undefined : this.#rememberAs(id, image);
  }

  #rememberAs(id: string, image: unknown): ProcessSettings {
    const defaults = toProcessSettings(getValueAt(image, "Config"));
    if (this.#images.size >= IMAGES_KEPT_MAX) this.#images.clear();
    this.#images.set(id, defaults);
    return defaults;
  }
}

export function toSettings(
  inspected: ContainerInspectInfo,
  imageDefaults: ProcessSettings | undefined,
): ContainerSettings {
  const host = inspected.HostConfig;
  const networks = Object.entries(inspected.NetworkSettings.Networks ?? {});
  const extraHosts = readExtraHosts(host.ExtraHosts);
  const foreignMounts = listMounts(inspected).filter(isForeignMount);
  return {
    ...toProcessSettings(inspected.Config),
    image: inspected.Config.Image,
    imageDefaults,
    networkMode: host.NetworkMode ?? "",
    aliases: Object.fromEntries(networks.map(([name, item]) => [name, item.Aliases ?? []])),
    hostAliases: extraHosts.flatMap(({ name, isGateway }) =>
      isGateway && name !== HOST_ALIAS ? [name] : [],
    ),
    mounts: listMounts(inspected).flatMap((mount) => toMountSpec(mount, host.Mounts) ?? []),
    publish: readPortBindings(host.PortBindings),
    restrictions: readRestrictions(host),
    ulimits: readUlimits(host.Ulimits),
    hostname: textAt(inspected.Config, "Hostname") ?? "",
    shmBytes: numberAt(host, "ShmSize") ?? 0,
    foreign: [
      ...listForeignSettings(host),
      ...(extraHosts.some(({ isGateway }) => !isGateway) ? ["ExtraHosts"] : []),
      ...(foreignMounts.length > 0 ? ["Mounts"] : []),
    ],
  };
}

function toProcessSettings(config: unknown): ProcessSettings {
  return {
    env: listAt(config, "Env"),
    entrypoint: listAt(config, "Entrypoint"),
    command: listAt(config, "Cmd"),
    user: textAt(config, "User") ?? "",
    workingDir: textAt(config, "WorkingDir") ?? "",
  };
}

/** Settings that change what a container does or may access, each with a check that accepts harmless values. */
const foreignSettings: Readonly<Record<string, (value: unknown) => boolean>> = {
  Privileged: isEmpty,
  CapAdd: isEmpty,
  // The option no-new-privileges is not a foreign setting: it is compared with the restrictions in the spec.
  SecurityOpt: (value) =>
    isEmpty(value) ||
    (Array.isArray(value) && value.every((option) => NO_NEW_PRIVILEGES.test(String(option)))),
  Devices: isEmpty,
  DeviceRequests: isEmpty,
  DeviceCgroupRules: isEmpty,
  PidMode: isPrivate,
  IpcMode: (value) => isPrivate(value) || value === "shareable",
  UTSMode: isPrivate,
  UsernsMode: isEmpty,
  GroupAdd: isEmpty,
  CgroupParent: isEmpty,
  VolumesFrom: isEmpty,
  Sysctls: isEmpty,
  AutoRemove: isEmpty,
  PublishAllPorts: isEmpty,
  Links: isEmpty,
  Dns: isEmpty,
  DnsOptions: isEmpty,
  DnsSearch: isEmpty,
  // An engine that supports masked paths lists them here. With "systempaths=unconfined" it lists none.
  MaskedPaths: (value) => !Array.isArray(value) || value.length > 0,
  ReadonlyPaths: (value) => !Array.isArray(value) || value.length > 0,
  RestartPolicy: (value) => ["", "no"].includes(textAt(value, "Name") ?? ""),
  CpuShares: isEmpty,
  CpuQuota: isEmpty,
  CpuPeriod: isEmpty,
  CpusetCpus: isEmpty,
  CpusetMems: isEmpty,
  BlkioWeight: isEmpty,
  MemoryReservation: isEmpty,
  // The value -1 means that there is no limit.
  PidsLimit: (value) => isEmpty(value) || value === -1,
};

const NO_NEW_PRIVILEGES = /^no-new-privileges([:=]true)?$/;

function readRestrictions(host: unknown): Restrictions {
  const tmpfs = getValueAt(host, "Tmpfs");
  return {
    readOnlyRoot: getValueAt(host, "ReadonlyRootfs") === true,
    dropCapabilities: listAt(host, "CapDrop").map((name) =>
      name.toUpperCase().replace(/^CAP_/, ""),
    ),
    noNewPrivileges: listAt(host, "SecurityOpt").some((option) => NO_NEW_PRIVILEGES.test(option)),
    tmpfs: isRecord(tmpfs)
      ? Object.entries(tmpfs).map(([path, options]) => {
          const [, size] = /(?:^|,)size=(\d+)(?:,|$)/.exec(String(options)) ?? [];
          return { path, sizeBytes: size === undefined ? undefined : Number(size) };
        })
      : [],
  };
}

function readUlimits(ulimits: unknown): Ulimit[] {
  return (Array.isArray(ulimits) ? ulimits : []).map((limit) => ({
    name: textAt(limit, "Name") ?? "",
    soft: numberAt(limit, "Soft") ?? 0,
    hard: numberAt(limit, "Hard") ?? 0,
  }));
}

function listForeignSettings(host: unknown): string[] {
  return Object.entries(foreignSettings).flatMap(([name, isHarmless]) =>
    isHarmless(getValueAt(host, name)) ? [] : [name],
  );
}

/** Returns true for a setting that is not set. Engines write null, an empty value or nothing for it. */
function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  if (isRecord(value)) return Object.keys(value).length === 0;
  return value === undefined || value === null || value === "" || value === 0 || value === false;
}

function isPrivate(value: unknown): boolean {
  return isEmpty(value) || value === "private";
}

function listAt(value: unknown, name: string): string[] {
  const found = getValueAt(value, name);
  return Array.isArray(found) ? found.filter((item) => typeof item === "string") : [];
}

function readExtraHosts(extraHosts: unknown): { name: string; isGateway: boolean }[] {
  if (!Array.isArray(extraHosts)) return [];
  return extraHosts.map((entry) => {
    const [, name = "", address = ""] = /^([^:=]*)[:=](.*)$/.exec(String(entry)) ?? [];
    return { name, isGateway: address === "host-gateway" };
  });
}

type Mount = ContainerInspectInfo["Mounts"][number];

/** Matches the name of an anonymous volume, which an image declares for its data. */
const ANONYMOUS_VOLUME = /^[0-9a-f]{64}$/;

const listMounts = (inspected: ContainerInspectInfo): readonly Mount[] => inspected.Mounts ?? [];

const isForeignMount = ({ Type: type }: Mount) => type !== "volume" && type !== "bind";

function toMountSpec(mount: Mount, requested: unknown): MountSpec | undefined {
  const common = { path: mount.Destination, readOnly: !mount.RW };
  if (mount.Type === "volume") {
    const volume = mount.Name ?? "";
    return ANONYMOUS_VOLUME.test(volume) ? undefined : { type: "volume", volume, ...common };
  }
  if (mount.Type !== "bind") return undefined;
  // The source of a bind mount is read from the settings with which the container was created, because an engine in a
  // virtual machine may report another path for the mount.
  const own: unknown[] = Array.isArray(requested) ? requested : [];
  const asked = own.find(
    (item) => textAt(item, "Type") === "bind" && textAt(item, "Target") === mount.Destination,
  );
  return { type: "bind", hostPath: textAt(asked, "Source") ?? mount.Source, ...common };
}

function readPortBindings(bindings: unknown): PublishSpec[] {
  if (!isRecord(bindings)) return [];
  return Object.entries(bindings).flatMap(([key, list]) => {
    const [port, protocol] = key.split("/");
    return (Array.isArray(list) ? list : []).map(
      (item): PublishSpec => ({
        containerPort: Number(port),
        protocol: protocol === "udp" ? "udp" : "tcp",
        hostAddress: textAt(item, "HostIp") ?? "",
        hostPort: Number(textAt(item, "HostPort") || 0),
      }),
    );
  });
}
