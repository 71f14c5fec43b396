import { posix } from "node:path";
import {
  type ContainerSettings,
  type MountSpec,
  NO_RESTRICTIONS,
  type ProcessSettings,
  type PublishSpec,
  type Restrictions,
  type Ulimit,
} from "./container-settings.ts";
import type { ContainerSpec, ObservedContainer } from "./runtime/port.ts";

/**
 * Returns the names, but never the values, of the settings in which a container differs from its spec. A difference
 * means that another program has created the container with Berth's labels, or has changed it later. If the engine does
 * not report the settings, only the image is compared. The state, the name and the limits are compared elsewhere.
 *
 * A setting that the spec leaves out is expected to come from the image, or to have the engine's default. Settings
 * that the adapter gives to every container and that do not affect the program (log driver, init) are not
 * compared, so that another version of Berth may choose other values.
 */
export function findDifferences(
  container: ObservedContainer,
  spec: ContainerSpec,
): readonly string[] {
  const { settings } = container;
  const isOtherImage =
    spec.imageId !== undefined && hexOf(container.imageId) !== hexOf(spec.imageId);
  if (!settings) return isOtherImage ? ["image"] : [];
  const isOtherReference = spec.imageId === undefined && settings.image !== spec.image;
  const wantedNetworks = [spec, ...(spec.furtherNetworks ?? [])];
  const hasMoved =
    settings.networkMode !== spec.network ||
    container.networks.some((name) => wantedNetworks.every(({ network }) => network !== name));
  const lists = (
    [
      ["hostAliases", settings.hostAliases, spec.hostAliases ?? []],
      ["volumes", settings.mounts.map(describeMount), spec.mounts.map(describeMount)],
      ...listRestrictions(settings.restrictions, spec.restrictions ?? NO_RESTRICTIONS),
    ] as const
  ).flatMap(([name, actual, wanted]) => (haveSameItems(actual, wanted) ? [] : [name]));
  return [
    ...(isOtherImage || isOtherReference ? ["image"] : []),
    ...findProcessDifferences(settings, spec),
    ...findEnvDifferences(settings, spec),
    ...lists,
    ...(spec.hostname !== undefined && spec.hostname !== settings.hostname ? ["hostname"] : []),
    ...(hasUlimits(settings.ulimits, spec.ulimits ?? []) ? [] : ["ulimits"]),
    ...(spec.shmBytes !== undefined && spec.shmBytes !== settings.shmBytes ? ["shmSize"] : []),
    ...(isPublished(settings.publish, spec.publish) ? [] : ["ports"]),
    ...(hasMoved ? ["networks"] : []),
    ...(wantedNetworks.some((wanted) => hasOtherAliases(container, settings, spec, wanted))
      ? ["aliases"]
      : []),
    ...settings.foreign,
  ];
}

/**
 * Compares the settings of a container's process with the spec. If the engine has lost the image, settings that the
 * spec leaves to the image cannot be compared.
 */
function findProcessDifferences(settings: ContainerSettings, spec: ContainerSpec): string[] {
  const defaults: Partial<ProcessSettings> = settings.imageDefaults ?? {};
  // Without a command in the spec, the engine runs the command of the image, unless the spec sets an entrypoint. The
  // engine treats an empty command as no command.
  const hasEntrypoint = (spec.entrypoint ?? []).length > 0;
  const hasCommand = (spec.command ?? []).length > 0;
  const command = hasCommand ? spec.command : hasEntrypoint ? [] : defaults.command;
  const entrypoint = withoutReset(spec.entrypoint ?? defaults.entrypoint);
  const user = spec.user ?? defaults.user;
  const workingDir = spec.workingDir ?? defaults.workingDir;
  const isOther = {
    entrypoint: entrypoint !== undefined && !areEqual(entrypoint, settings.entrypoint),
    command: command !== undefined && !areEqual(command, settings.command),
    user: user !== undefined && user !== settings.user,
    workingDir:
      workingDir !== undefined && cleanPath(workingDir) !== cleanPath(settings.workingDir),
  };
  return Object.entries(isOther).flatMap(([name, differs]) => (differs ? [name] : []));
}

/** Returns an empty entrypoint for `[""]`, which tells the engine to use no entrypoint. */
function withoutReset(entrypoint: readonly string[] | undefined): readonly string[] | undefined {
  return entrypoint?.length === 1 && entrypoint[0] === "" ? [] : entrypoint;
}

function findEnvDifferences({ env, imageDefaults }: ContainerSettings, spec: ContainerSpec) {
  const actual = new Set(env);
  const wanted = new Set(spec.env);
  const inherited = imageDefaults && new Set(imageDefaults.env);
  const missing = spec.env.filter((item) => !actual.has(item));
  const added = env.filter((item) => !wanted.has(item) && inherited && !inherited.has(item));
  const names = [...missing, ...added].map((item) => item.split("=", 1)[0] ?? "");
  return [...new Set(names)].toSorted().map((name) => `env ${name}`);
}

function isPublished(actual: readonly PublishSpec[], wanted: readonly PublishSpec[]): boolean {
  return (
    wanted.every((own) => actual.some((other) => isSamePort(own, other))) &&
    actual.every((other) => wanted.some((own) => isSamePort(own, other)))
  );
}

/** Compares two port mappings. Port 0 in the spec matches every port of the machine, because the engine chooses one. */
function isSamePort(wanted: PublishSpec, actual: PublishSpec): boolean {
  return (
    wanted.containerPort === actual.containerPort &&
    wanted.protocol === actual.protocol &&
    anyAddress(wanted.hostAddress) === anyAddress(actual.hostAddress) &&
    (wanted.hostPort === 0 || wanted.hostPort === actual.hostPort)
  );
}

/** Removes the prefix `sha256:` of an image id, because Podman leaves it out in some places. */
const hexOf = (id: string) => id.replace(/^sha256:/, "");

const anyAddress = (address: string) => (address === "0.0.0.0" ? "" : address);

/** Matches the short id of a container, which engines set as the container's host name and as one of its aliases. */
const SHORT_ID = /^[0-9a-f]{12}$/;

/**
 * True if the container lacks an alias of this network, or has another alias in addition. Aliases that no program would
 * look up, such as the engine's own ones, do not count.
 */
function hasOtherAliases(
  { id, name, networks }: ObservedContainer,
  settings: ContainerSettings,
  { name: wantedName, hostname = "" }: ContainerSpec,
  { network, aliases }: { readonly network: string; readonly aliases: readonly string[] },
): boolean {
  // The aliases of a network that the container has left are not compared here: Berth connects the container to the
  // network again, with all aliases.
  if (!networks.includes(network)) return false;
  const actual = settings.aliases[network] ?? [];
  // Engines add the host name of a container to its aliases on every network.
  const allowed = new Set([...aliases, id, name, wantedName, hostname]);
  return (
    aliases.some((alias) => !actual.includes(alias)) ||
    actual.some((alias) => !allowed.has(alias) && !SHORT_ID.test(alias))
  );
}

/** Returns, for each restriction, its name and the texts that describe its actual and its wanted value. */
function listRestrictions(actual: Restrictions, wanted: Restrictions) {
  const [own, other] = [describeRestrictions(actual), describeRestrictions(wanted)];
  return (["readOnlyRoot", "noNewPrivileges", "dropCapabilities", "tmpfs"] as const).map(
    (name) => [name, own[name], other[name]] as const,
  );
}

function describeRestrictions(restrictions: Restrictions) {
  const { readOnlyRoot, noNewPrivileges, dropCapabilities, tmpfs } = restrictions;
  return {
    readOnlyRoot: [String(readOnlyRoot)],
    noNewPrivileges: [String(noNewPrivileges)],
    dropCapabilities,
    tmpfs: tmpfs.map(({ path, sizeBytes }) => `${cleanPath(path)} ${sizeBytes ?? ""}`),
  };
}

/** Compares the limits that the spec sets. Further ones may be those that the engine gives to every container. */
function hasUlimits(actual: readonly Ulimit[], wanted: readonly Ulimit[]): boolean {
  return wanted.every((limit) =>
    actual.some(
      ({ name, soft, hard }) => name === limit.name && soft === limit.soft && hard === limit.hard,
    ),
  );
}

function describeMount(mount: MountSpec): string {
  const source = mount.type === "volume" ? mount.volume : cleanPath(mount.hostPath);
  return JSON.stringify([mount.type, source, cleanPath(mount.path), mount.readOnly]);
}

/** Returns a path as engines report it: without a slash at its end, and `/` for an empty path. */
const cleanPath = (path: string) => posix.resolve("/", path);

const areEqual = (a: readonly string[], b: readonly string[]) =>
  a.length === b.length && a.every((item, index) => item === b[index]);

const haveSameItems = (a: readonly string[], b: readonly string[]) =>
  areEqual(a.toSorted(), b.toSorted());
