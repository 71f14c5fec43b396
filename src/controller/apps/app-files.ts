import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { replaceFileSync } from "../../base/atomic-file.ts";
import { hashJson } from "../../base/canonical-json.ts";
import { BerthError, formatErrorCode, isDiskFull } from "../../base/errors.ts";
import type { EffectiveFile } from "../../resources/app-defaults.ts";
import type { SecretReference } from "../../resources/app-spec.ts";
import type { ObservedContainer } from "../runtime/port.ts";

/**
 * The files of Apps. Each file of each version is below the folder of its App, under a name that is a hash of its path,
 * its mode and its content. If the content changes, the containers need another mount, which makes another version. The
 * files of the version that runs stay unchanged while the next one starts.
 */

/** A file as it is written on this machine. Its content may be secret and is never logged. */
export interface AppFileSpec {
  /** The path of the file in the containers. */
  readonly path: string;
  readonly hostPath: string;
  readonly content: string;
  readonly mode: number;
}

export function buildFiles(
  dataDir: string | undefined,
  app: string,
  files: readonly EffectiveFile[],
  revealSecret: (reference: SecretReference) => string,
): readonly AppFileSpec[] {
  if (dataDir === undefined) return [];
  return files.map(({ path, content: given, mode }) => {
    const content = typeof given === "string" ? given : revealSecret(given);
    const hash = hashJson([path, mode, content]).slice(0, 32);
    return { path, hostPath: join(getFilesFolder(dataDir, app), hash), content, mode };
  });
}

/**
 * Writes files that are missing or that another program has changed. Every user may read a file, because containers run
 * as any user. Other users of the machine still cannot reach it, because its folder, which containers do not see, is
 * closed to them.
 */
export function writeFiles(files: readonly AppFileSpec[]): void {
  for (const file of files) {
    if (isWritten(file)) continue;
    try {
      mkdirSync(dirname(file.hostPath), { recursive: true, mode: 0o700 });
      const draft = `${file.hostPath}.new`;
      replaceFileSync(file.hostPath, file.content, { draft, isFlushed: false });
      chmodSync(file.hostPath, file.mode);
    } catch (error) {
      const message = `the file ${file.path} of the app cannot be written below the data directory: ${formatErrorCode(error)}`;
      throw new BerthError(isDiskFull(error) ? "disk_full" : "engine_error", message);
    }
  }
}

/** Removes the files of an App that neither its desired version nor an existing container uses. */
export function removeUnusedFiles(
  dataDir: string | undefined,
  { name, files }: { readonly name: string; readonly files: readonly AppFileSpec[] },
  containers: readonly ObservedContainer[],
): void {
  // The mounts of a container are unknown if the engine does not report its settings.
  if (dataDir === undefined || containers.some(({ settings }) => !settings)) return;
  const folder = getFilesFolder(dataDir, name);
  const mounted = containers.flatMap(({ settings }) =>
    (settings?.mounts ?? []).flatMap((mount) => (mount.type === "bind" ? [mount.hostPath] : [])),
  );
  const used = new Set([...files.map(({ hostPath }) => hostPath), ...mounted]);
  for (const entry of listFolder(folder)) {
    const path = join(folder, entry);
    if (!used.has(path)) rmSync(path, { recursive: true, force: true });
  }
}

/** Removes all files of an App that is deleted. */
export function removeFiles(dataDir: string | undefined, app: string): void {
  if (dataDir !== undefined) rmSync(getFilesFolder(dataDir, app), { recursive: true, force: true });
}

const getFilesFolder = (dataDir: string, app: string) => join(dataDir, "files", app);

function isWritten({ hostPath, content, mode }: AppFileSpec): boolean {
  try {
    return (statSync(hostPath).mode & 0o777) === mode && readFileSync(hostPath, "utf8") === content;
  } catch {
    return false;
  }
}

function listFolder(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
