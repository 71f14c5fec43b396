import { posix } from "node:path";
import type { Volume } from "../resources/app-mount-spec.ts";
import { toDnsLabel } from "./assign-app-names.ts";
import { type ComposeNode, getValue, isFalse, isNull, listItems } from "./compose-tree.ts";
import { convertBindMount } from "./convert-bind-mount.ts";
import { convertTmpfsVolume } from "./convert-restrictions.ts";
import { describeReach } from "./describe-reach.ts";
import { CONTENT_KEYS, type Mount, readMount } from "./mount.ts";
import type { ProjectData } from "./project-data.ts";
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

/** Converts named volumes and bind mounts, and reports all other mounts. */
export function convertVolumes(conversion: ServiceConversion, data: ProjectData): void {
  for (const item of listItems(conversion.getNode("volumes"))) {
    if (isNull(item)) continue;
    const mount = readMount(conversion, item);
    if (mount) convertMount(conversion, item, mount, data);
    else conversion.addLoss(item, "is omitted: it is not a volume");
  }
}

function convertMount(
  conversion: ServiceConversion,
  item: ComposeNode,
  mount: Mount,
  data: ProjectData,
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
  const { volumes = [], folders = [] } = conversion.spec;
  if (
    [...volumes, ...folders].some((other) => posix.resolve(other.path) === posix.resolve(target))
  ) {
    conversion.addLoss(item, `another volume is already mounted at ${target}`);
    return;
  }
  if (mount.type === "bind") convertBindMount(conversion, item, mount, data);
  else if (source === undefined || source === "") {
    conversion.addLoss(
      item,
      `the volume at ${target} has no name: its data is deleted with the container`,
      `add { name: NAME, path: ${target} } to volumes to keep the data`,
    );
  } else convertNamedVolume(conversion, item, mount, source, data);
  for (const mode of mount.modes) reportMountOption(conversion, item, mode);
  if (item.kind === "scalar") conversion.markHandled(item);
  else {
    conversion.markHandled(getValue(item, "consistency"));
    conversion.markHandled(getValue(getValue(item, "volume"), "nocopy"));
    conversion.markHandled(getValue(getValue(item, "bind"), "create_host_path"));
    for (const key of CONTENT_KEYS) conversion.markHandled(getValue(item, key));
  }
}

function addVolume(
  conversion: ServiceConversion,
  { target, readOnly }: Mount,
  source: { readonly hostPath: string } | { readonly name: string; readonly shared?: true },
): void {
  const volume: Volume = { ...source, path: target, ...(readOnly ? { readOnly: true } : {}) };
  conversion.spec.volumes = [...(conversion.spec.volumes ?? []), volume];
}

function convertNamedVolume(
  conversion: ServiceConversion,
  item: ComposeNode,
  mount: Mount,
  source: string,
  data: ProjectData,
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
  const users = data.getVolumeUsers(source);
  const shared = users.length > 1;
  const name = shared ? data.getVolumeName(source) : nameOwnVolume(conversion, source, data);
  if (name === undefined) {
    conversion.addLoss(item, `no volume name can be derived from "${source}"`);
    return;
  }
  addVolume(conversion, mount, { name, ...(shared && { shared }) });
  // The data of a shared volume is copied once, which the finding of the first service says.
  if (shared && users[0] !== conversion.service) return;
  const owner = shared ? `of the stack, which ${users.join(", ")} share,` : "of the app";
  conversion.addUnhandledFinding(
    "changed",
    item,
    `the volume "${name}" ${owner} is new and empty${isExternalVolume(declared) ? `, and the external volume "${source}" keeps its data` : ""}`,
    createCopyHint(conversion, source, { name, shared }, declared),
  );
}

/** Returns the name of a volume that only one service mounts, possibly at several paths. */
function nameOwnVolume(
  conversion: ServiceConversion,
  source: string,
  data: ProjectData,
): string | undefined {
  const known = conversion.volumeNames.get(source);
  if (known !== undefined) return known;
  const taken = [...conversion.volumeNames.values(), ...data.listSharedVolumeNames()];
  const name = toDnsLabel(source, taken);
  if (name !== undefined) conversion.volumeNames.set(source, name);
  return name;
}

function isExternalVolume(declared: ComposeNode | undefined): boolean {
  const external = getValue(declared, "external");
  return external !== undefined && !isNull(external) && !isFalse(external);
}

/** Returns a hint with the commands that stop the app and copy the data of the Compose volume to the app's volume. */
function createCopyHint(
  conversion: ServiceConversion,
  source: string,
  { name, shared }: { readonly name: string; readonly shared: boolean },
  declared: ComposeNode | undefined,
): string {
  const named = getValue(declared, "name") ?? getValue(getValue(declared, "external"), "name");
  const own = named?.kind === "scalar" && named.text !== "" ? named.text : undefined;
  const old =
    own ??
    (isExternalVolume(declared)
      ? source
      : `${getComposeProjectName(conversion.project)}_${source}`);
  const { stack } = conversion.options;
  const owner = shared ? `stack=${stack}` : `app=${conversion.app}`;
  const users = shared ? `stack/${stack}` : conversion.app;
  const filters = `--filter label=dev.berth.${owner} --filter label=dev.berth.volume=${name}`;
  // The name comes from the file, and the user copies the command to a shell.
  const from = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(old) ? old : "VOLUME";
  return `to copy the data: \`berth stop ${users}\`, then docker run --rm -v ${from}:/from:ro -v "$(docker volume ls -q ${filters})":/to ${conversion.spec.image ?? "busybox"} cp -a /from/. /to/`;
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
