import { basename } from "node:path";
import type { Folder } from "../resources/app-mount-spec.ts";
import type { AppFile } from "../resources/app-spec.ts";
import type { ComposeNode } from "./compose-tree.ts";
import { describeReach } from "./describe-reach.ts";
import { type Mount, resolveHostPath } from "./mount.ts";
import { isRelative, type ProjectData } from "./project-data.ts";
import { REACH_HINT } from "./project-folder.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/**
 * Converts a bind mount: content in the Compose file becomes a file of the App, a relative folder that does not exist
 * becomes a folder that Berth makes, and every other path stays a path of the machine.
 */
export function convertBindMount(
  conversion: ServiceConversion,
  item: ComposeNode,
  mount: Mount,
  data: ProjectData,
): void {
  const { source = "", target } = mount;
  const hostPath = source === "" ? undefined : resolveHostPath(conversion, item, source);
  if (hostPath === undefined || hostPath.split("/").includes("..")) {
    conversion.addLoss(item, `"${source}" cannot be resolved to a folder`, "set hostPath yourself");
    return;
  }
  if (isRelative(source) && convertProvidedFiles(conversion, item, mount, hostPath, data)) return;
  const reach = describeReach(conversion, hostPath, mount.readOnly);
  const { files } = conversion.options;
  const isThere = files.exists ? files.exists(hostPath) : "text" in files.read(hostPath);
  const name = data.getFolderName(hostPath);
  const isMissing = isRelative(source) && reach === undefined && name !== undefined && !isThere;
  const isFile = !mount.isFolder && isFileName(source) && isFileName(target);
  // Without a folder on a disk, the user cannot create the file there.
  if (isMissing && isFile && !files.exists) {
    conversion.addLoss(
      item,
      `the file ${source} does not exist, so ${target} is missing in the container`,
      `add it to the app: files: [{ path: ${target}, content: TEXT }]`,
    );
    return;
  }
  if (isMissing && !isFile) {
    addFolder(conversion, item, mount, { name, path: hostPath }, data);
    return;
  }
  conversion.spec.volumes = [
    ...(conversion.spec.volumes ?? []),
    { hostPath, path: target, ...(mount.readOnly && { readOnly: true }) },
  ];
  if (reach !== undefined) conversion.addUnhandledFinding("unsafe", item, reach, REACH_HINT);
  else
    conversion.addUnhandledFinding(
      "note",
      item,
      `mounts ${hostPath} of the machine that runs Berth`,
      isThere ? undefined : "create it before the app starts: Berth does not create it",
    );
}

/**
 * Converts files whose content the Compose file provides for this path, or for paths below it. Returns true if the
 * mount consists of such files alone.
 */
function convertProvidedFiles(
  conversion: ServiceConversion,
  item: ComposeNode,
  { content, target, readOnly, isFolder }: Mount,
  hostPath: string,
  { files }: ProjectData,
): boolean {
  const own = content ?? files.find(({ path }) => path === hostPath)?.content;
  if (own !== undefined && !isFolder) {
    addFile(conversion, { path: target, content: own });
    if (!readOnly)
      conversion.addUnhandledFinding(
        "changed",
        item,
        `${target} is a file of the app, which its containers cannot change`,
        "mount a folder if the app writes to it",
      );
    return true;
  }
  const inner = files.filter(({ path }) => path.startsWith(`${hostPath}/`));
  for (const { path, content: text } of inner)
    addFile(conversion, { path: `${target}${path.slice(hostPath.length)}`, content: text });
  return inner.length > 0 && readOnly;
}

function addFile({ spec }: ServiceConversion, file: AppFile): void {
  if (spec.files?.some(({ path }) => path === file.path) !== true)
    spec.files = [...(spec.files ?? []), file];
}

function addFolder(
  conversion: ServiceConversion,
  item: ComposeNode,
  { source, target, readOnly }: Mount,
  { name, path }: { readonly name: string; readonly path: string },
  data: ProjectData,
): void {
  const users = data.getFolderUsers(path);
  const folder: Folder = {
    name,
    path: target,
    ...(readOnly && { readOnly: true }),
    ...(users.length > 1 && { shared: true }),
  };
  conversion.spec.folders = [...(conversion.spec.folders ?? []), folder];
  const owner = users.length > 1 ? `stacks/${conversion.options.stack}` : `apps/${conversion.app}`;
  conversion.addUnhandledFinding(
    "note",
    item,
    `${source} does not exist here, so Berth makes the folder "${name}"`,
    `it is folders/${owner}/${name} in Berth's data directory; to use an existing folder, create ${source} and import again`,
  );
  const [overlap] = data.listOverlappingFolders(path);
  if (overlap !== undefined)
    conversion.addUnhandledFinding(
      "changed",
      item,
      `${source} and ${basename(overlap)} are separate folders, although one is inside the other in the file`,
    );
}

/** True for a path whose last part looks like the name of a file: it has an extension other than `.d`. */
function isFileName(path: string): boolean {
  return /[^./][^/]*\.(?!d$)[A-Za-z0-9]{1,8}$/.test(path);
}
