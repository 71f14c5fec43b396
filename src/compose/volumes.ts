import { basename, posix } from "node:path";
import type { Volume } from "../resources/app.ts";
import { hostPathOf, type Mount, namedVolumesOf, readMount } from "./mount.ts";
import { labelOf } from "./names.ts";
import type { ServiceScope } from "./scope.ts";
import { type ComposeNode, isNull, valueAt } from "./tree.ts";

/** Options of mounts that say nothing on Linux, or what Berth does anyhow. */
const meaningless: readonly string[] = ["cached", "delegated", "consistent", "default", "nocopy"];

/** Named volumes and folders of the machine; the rest is reported. `usersOf` counts a volume's services. */
export function convertVolumes(
  scope: ServiceScope,
  usersOf: (volume: string) => readonly string[],
): void {
  const node = scope.get("volumes");
  for (const item of node?.kind === "list" ? node.items : node ? [node] : []) {
    if (isNull(item)) continue;
    const mount = readMount(scope, item);
    if (mount) convertMount(scope, item, mount, usersOf);
    else scope.lost(item, "is left out: it is not a volume");
  }
  for (const item of scope.texts(scope.get("tmpfs"))) {
    scope.lost(item, `${item.text.split(":")[0]} is not kept in memory but in the container`);
  }
}

function convertMount(
  scope: ServiceScope,
  item: ComposeNode,
  mount: Mount,
  usersOf: (volume: string) => readonly string[],
): void {
  const { target, source } = mount;
  if (!target.startsWith("/") || target.split("/").includes("..")) {
    scope.lost(item, `"${target}" is not an absolute path in the container`);
    return;
  }
  if (mount.type === "tmpfs") {
    scope.lost(item, `${target} is not kept in memory but in the container`);
    return;
  }
  if (mount.type === "other") {
    scope.lost(item, `${target} is mounted in a way that an App does not have`);
    return;
  }
  if (scope.spec.volumes?.some((other) => posix.resolve(other.path) === posix.resolve(target))) {
    scope.lost(item, `something else is mounted at ${target} already`);
    return;
  }
  if (mount.type === "bind") convertBind(scope, item, mount, source ?? "");
  else if (source === undefined || source === "") {
    scope.lost(
      item,
      `what is in ${target} is kept for as long as the container only: the volume has no name`,
      `add { name: NAME, path: ${target} } to volumes to keep it for longer`,
    );
  } else convertNamed(scope, item, mount, source, usersOf(source));
  for (const mode of mount.modes) reportMode(scope, item, mode);
  if (item.kind === "scalar") scope.take(item);
  else {
    scope.take(valueAt(item, "consistency"));
    scope.take(valueAt(valueAt(item, "volume"), "nocopy"));
    scope.take(valueAt(valueAt(item, "bind"), "create_host_path"));
  }
}

function add(scope: ServiceScope, volume: Volume): void {
  scope.spec.volumes = [...(scope.spec.volumes ?? []), volume];
}

function convertBind(scope: ServiceScope, item: ComposeNode, mount: Mount, source: string): void {
  const hostPath = source === "" ? undefined : hostPathOf(scope, item, source);
  if (hostPath === undefined || hostPath.split("/").includes("..")) {
    scope.lost(item, `"${source}" is not a folder that can be named here`, "set hostPath yourself");
    return;
  }
  add(scope, { hostPath, path: mount.target, ...(mount.readOnly ? { readOnly: true } : {}) });
  if (/^\/(var\/)?run\/docker\.sock$/.test(hostPath)) {
    scope.mention(
      "note",
      item,
      "whoever reaches the socket of the engine rules the machine, and all apps of Berth",
    );
  } else {
    scope.mention(
      "note",
      item,
      `mounts ${hostPath} of the machine that Berth runs on`,
      "it has to be there before the app starts: Berth does not make it",
    );
  }
}

function convertNamed(
  scope: ServiceScope,
  item: ComposeNode,
  mount: Mount,
  source: string,
  users: readonly string[],
): void {
  const declared = valueAt(scope.project.volumes, source);
  const device = boundDevice(declared);
  if (device !== undefined) {
    add(scope, {
      hostPath: device,
      path: mount.target,
      ...(mount.readOnly ? { readOnly: true } : {}),
    });
    scope.mention(
      "note",
      item,
      `the volume "${source}" is the folder ${device}, and is mounted as that`,
    );
    return;
  }
  const taken = (scope.spec.volumes ?? []).flatMap((volume) =>
    "name" in volume ? [volume.name] : [],
  );
  const name = labelOf(source, taken);
  if (name === undefined) {
    scope.lost(item, `no name of a volume can be made of "${source}"`);
    return;
  }
  const mounted = namedVolumesOf(scope.body).filter((other) => other === source).length;
  if (mounted > 1 && taken.includes(labelOf(source, []) ?? "")) {
    scope.mention(
      "lost",
      item,
      `an App mounts a volume once, so ${mount.target} has the volume "${name}" of its own`,
      "mount a folder of the machine (hostPath) in both places",
    );
  }
  add(scope, { name, path: mount.target, ...(mount.readOnly ? { readOnly: true } : {}) });
  const others = users.filter((user) => user !== scope.service);
  if (others.length > 0) {
    scope.mention(
      "lost",
      item,
      `the volume "${source}" is shared with ${others.join(", ")}; a volume of Berth belongs to one app, so each has one of its own`,
      "mount the same folder of the machine (hostPath) in all of them",
    );
  }
  const external = valueAt(declared, "external");
  const isExternal = external !== undefined && !isNull(external) && !isFalse(external);
  scope.mention(
    "note",
    item,
    `the volume "${name}" of the app is new and empty${isExternal ? `, and "${source}" is not made by this project but exists already` : ""}`,
    copyHint(scope, source, name, declared),
  );
}

function isFalse(node: ComposeNode): boolean {
  return node.kind === "scalar" && /^(false|no|off)$/i.test(node.text);
}

/** One line that copies what the old volume holds, run while neither side is. */
function copyHint(
  scope: ServiceScope,
  source: string,
  name: string,
  declared: ComposeNode | undefined,
): string {
  const external = valueAt(declared, "external");
  const named = valueAt(declared, "name") ?? valueAt(external, "name");
  const own = named?.kind === "scalar" && named.text !== "" ? named.text : undefined;
  const isExternal = external !== undefined && !isNull(external) && !isFalse(external);
  const old = own ?? (isExternal ? source : `${projectName(scope)}_${source}`);
  const filters = `--filter label=dev.berth.app=${scope.app} --filter label=dev.berth.volume=${name}`;
  return `to bring the data along: \`berth stop ${scope.app}\`, then docker run --rm -v ${old}:/from:ro -v "$(docker volume ls -q ${filters})":/to ${scope.spec.image ?? "busybox"} cp -a /from/. /to/`;
}

/** As Compose names a project: by `name`, or by the folder. */
function projectName({ project }: ServiceScope): string {
  const given = project.name?.text ?? "";
  const name = given === "" ? basename(project.folder) : given;
  return name
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]/g, "")
    .replace(/^[_-]+/, "");
}

/** A volume of the driver "local" that is a folder of the machine in truth. */
function boundDevice(declared: ComposeNode | undefined): string | undefined {
  const options = valueAt(declared, "driver_opts");
  const text = (key: string) => {
    const node = valueAt(options, key);
    return node?.kind === "scalar" ? node.text : "";
  };
  const device = text("device");
  const isBind = text("o")
    .split(",")
    .some((option) => option === "bind" || option === "rbind");
  return isBind && device.startsWith("/") && !device.split("/").includes("..") ? device : undefined;
}

function reportMode(scope: ServiceScope, item: ComposeNode, mode: string): void {
  if (meaningless.includes(mode)) return;
  if (mode === "z" || mode === "Z") {
    scope.lost(item, "the folder gets no SELinux label", "label it with chcon -t container_file_t");
  } else {
    scope.lost(item, `the mount option "${mode}" is left out`);
  }
}
