import { posix } from "node:path";
import type { Volume } from "../resources/app-spec.ts";
import { toDnsLabel } from "./assign-app-names.ts";
import { type ComposeNode, getValue, isFalse, isNull, listItems } from "./compose-tree.ts";
import { convertTmpfsVolume } from "./convert-restrictions.ts";
import { describeReach } from "./describe-reach.ts";
import { listNamedVolumes, type Mount, readMount, resolveHostPath } from "./mount.ts";
import { REACH_HINT } from "./project-folder.ts";
import { getComposeProjectName } from "./project-name.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Mount options that are ignored, because they have no effect on Linux or Berth applies them anyway. */
const ignoredMountOptions: readonly string[] = [
  "cached",
  "delegated",
  "consistent",
  "default",
  "nocopy",
];

/**
 * Converts named volumes and bind mounts, and reports all other mounts. `getVolumeUsers` returns the services that
 * use a volume.
 */
export function convertVolumes(
  conversion: ServiceConversion,
  getVolumeUsers: (volume: string) => readonly string[],
): void {
  for (const item of listItems(conversion.getNode("volumes"))) {
    if (isNull(item)) continue;
    const mount = readMount(conversion, item);
    if (mount) convertMount(conversion, item, mount, getVolumeUsers);
    else conversion.addLoss(item, "this value is omitted: it is not a volume");
  }
}

function convertMount(
  conversion: ServiceConversion,
  item: ComposeNode,
  mount: Mount,
  getVolumeUsers: (volume: string) => readonly string[],
): void {
  const { target, source } = mount;
  if (!target.startsWith("/") || target.split("/").includes("..")) {
    conversion.addLoss(item, `"${target}" is not an absolute path in the container`);
    return;
  }
  if (mount.type === "tmpfs") {
    convertTmpfsVolume(conversion, item, target);
    return;
  }
  if (mount.type === "other") {
    conversion.addLoss(item, `the type of the mount at ${target} is not supported`);
    return;
  }
  if (
    conversion.spec.volumes?.some((other) => posix.resolve(other.path) === posix.resolve(target))
  ) {
    conversion.addLoss(item, `another volume is already mounted at ${target}`);
    return;
  }
  if (mount.type === "bind") convertBindMount(conversion, item, mount, source ?? "");
  else if (source === undefined || source === "") {
    conversion.addLoss(
      item,
      `the volume at ${target} has no name: its data is deleted with the container`,
      `add { name: NAME, path: ${target} } to volumes to keep the data`,
    );
  } else convertNamedVolume(conversion, item, mount, source, getVolumeUsers(source));
  for (const mode of mount.modes) reportMountOption(conversion, item, mode);
  if (item.kind === "scalar") conversion.markHandled(item);
  else {
    conversion.markHandled(getValue(item, "consistency"));
    conversion.markHandled(getValue(getValue(item, "volume"), "nocopy"));
    conversion.markHandled(getValue(getValue(item, "bind"), "create_host_path"));
  }
}

function addVolume(
  conversion: ServiceConversion,
  { target, readOnly }: Mount,
  source: { readonly hostPath: string } | { readonly name: string },
): void {
  const volume: Volume = { ...source, path: target, ...(readOnly ? { readOnly: true } : {}) };
  conversion.spec.volumes = [...(conversion.spec.volumes ?? []), volume];
}

function convertBindMount(
  conversion: ServiceConversion,
  item: ComposeNode,
  mount: Mount,
  source: string,
): void {
  const hostPath = source === "" ? undefined : resolveHostPath(conversion, item, source);
  if (hostPath === undefined || hostPath.split("/").includes("..")) {
    conversion.addLoss(item, `"${source}" cannot be resolved to a folder`, "set hostPath yourself");
    return;
  }
  addVolume(conversion, mount, { hostPath });
  const reach = describeReach(conversion, hostPath, mount.readOnly);
  if (reach !== undefined) {
    conversion.addUnhandledFinding("unsafe", item, reach, REACH_HINT);
  } else {
    conversion.addUnhandledFinding(
      "note",
      item,
      `this app mounts ${hostPath} of the machine that runs Berth`,
      "create it before the app starts: Berth does not create it",
    );
  }
}

function convertNamedVolume(
  conversion: ServiceConversion,
  item: ComposeNode,
  mount: Mount,
  source: string,
  users: readonly string[],
): void {
  const declared = getValue(conversion.project.volumes, source);
  const device = findBoundFolder(declared);
  if (device !== undefined) {
    addVolume(conversion, mount, { hostPath: device });
    const what = `the volume "${source}" is the folder ${device}, and is mounted as that folder`;
    const reach = describeReach(conversion, device, mount.readOnly);
    if (reach === undefined) conversion.addUnhandledFinding("note", item, what);
    else conversion.addUnhandledFinding("unsafe", item, `${what}: ${reach}`, REACH_HINT);
    return;
  }
  const taken = (conversion.spec.volumes ?? []).flatMap((volume) =>
    "name" in volume ? [volume.name] : [],
  );
  const name = toDnsLabel(source, taken);
  if (name === undefined) {
    conversion.addLoss(item, `no volume name can be derived from "${source}"`);
    return;
  }
  const mounted = listNamedVolumes(conversion.body).filter((other) => other === source).length;
  if (mounted > 1 && taken.includes(toDnsLabel(source, []) ?? "")) {
    conversion.addUnhandledFinding(
      "lost",
      item,
      `an App can mount a volume only once, so ${mount.target} has its own volume "${name}"`,
      "mount a folder of the machine (hostPath) in both places",
    );
  }
  addVolume(conversion, mount, { name });
  const others = users.filter((user) => user !== conversion.service);
  if (others.length > 0) {
    conversion.addUnhandledFinding(
      "lost",
      item,
      `the volume "${source}" is shared with ${others.join(", ")}; a volume of Berth belongs to one app, so each app has its own`,
      "mount the same folder of the machine (hostPath) in all of them",
    );
  }
  conversion.addUnhandledFinding(
    "changed",
    item,
    `the volume "${name}" of the app is new and empty${isExternalVolume(declared) ? `, and the external volume "${source}" keeps its data` : ""}`,
    createCopyHint(conversion, source, name, declared),
  );
}

function isExternalVolume(declared: ComposeNode | undefined): boolean {
  const external = getValue(declared, "external");
  return external !== undefined && !isNull(external) && !isFalse(external);
}

/** Returns a hint with the commands that stop the app and copy the data of the Compose volume to the app's volume. */
function createCopyHint(
  conversion: ServiceConversion,
  source: string,
  name: string,
  declared: ComposeNode | undefined,
): string {
  const named = getValue(declared, "name") ?? getValue(getValue(declared, "external"), "name");
  const own = named?.kind === "scalar" && named.text !== "" ? named.text : undefined;
  const old =
    own ??
    (isExternalVolume(declared)
      ? source
      : `${getComposeProjectName(conversion.project)}_${source}`);
  const filters = `--filter label=dev.berth.app=${conversion.app} --filter label=dev.berth.volume=${name}`;
  // The name of the Compose volume comes from the Compose file, and the user copies the command to a shell. A name with
  // other characters is therefore replaced by a placeholder.
  const from = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(old) ? old : "VOLUME";
  return `to copy the data: \`berth stop ${conversion.app}\`, then docker run --rm -v ${from}:/from:ro -v "$(docker volume ls -q ${filters})":/to ${conversion.spec.image ?? "busybox"} cp -a /from/. /to/`;
}

/** Returns the folder of a volume that is a bind mount of the driver "local"; undefined for any other volume. */
function findBoundFolder(declared: ComposeNode | undefined): string | undefined {
  const options = getValue(declared, "driver_opts");
  const text = (key: string) => {
    const node = getValue(options, key);
    return node?.kind === "scalar" ? node.text : "";
  };
  const device = text("device");
  const isBind = text("o")
    .split(",")
    .some((option) => option === "bind" || option === "rbind");
  return isBind && device.startsWith("/") && !device.split("/").includes("..") ? device : undefined;
}

function reportMountOption(conversion: ServiceConversion, item: ComposeNode, mode: string): void {
  if (ignoredMountOptions.includes(mode)) return;
  if (mode === "z" || mode === "Z") {
    conversion.addLoss(
      item,
      "the folder gets no SELinux label",
      "label the folder with chcon -t container_file_t",
    );
  } else {
    conversion.addLoss(item, `the mount option "${mode}" is omitted`);
  }
}
