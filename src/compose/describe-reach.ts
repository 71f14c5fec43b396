import { posix } from "node:path";
import { isInProject } from "./project-folder.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Matches the path of a container engine's control socket, in any folder. */
const engineSocket = /(^|\/)(docker|podman|containerd|crio)\.sock$/;
/** Files without secrets. Many services mount these files to use the time zone of the machine. */
const harmlessFiles: ReadonlySet<string> = new Set(["/etc/localtime", "/etc/timezone"]);

/**
 * Returns the reason why a mount, a build or a file of variables gives an app access to more than the files of its
 * project; undefined for a path in the project's folder. For a symbolic link, the target counts.
 */
export function describeReach(
  conversion: ServiceConversion,
  hostPath: string,
  readOnly: boolean,
): string | undefined {
  const follow = (path: string) => conversion.options.files.resolveLinks?.(path) ?? path;
  const target = follow(hostPath);
  if (engineSocket.test(hostPath) || engineSocket.test(target))
    return "a process with access to the engine's socket controls the machine, and all apps of Berth";
  if (readOnly && harmlessFiles.has(posix.normalize(hostPath))) return undefined;
  if (isInProject(conversion.options.files, conversion.project.folder, hostPath)) return undefined;
  const shown = target === hostPath ? hostPath : `${hostPath}, which leads to ${target},`;
  const access = readOnly ? "reads" : "reads and writes";
  return `${shown} is outside of the project's folder: the app ${access} files of the machine that are not part of the project`;
}
