import { chmodSync, lstatSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { BerthError, formatErrorCode, isDiskFull } from "../../base/errors.ts";
import type { Folder } from "../../resources/app-mount-spec.ts";

/**
 * The folders of Apps and stacks below the data directory. No folder is inside another one: a container that could
 * write to the outer one could replace the inner one by a link to any folder of the machine.
 */

/** A folder that containers mount. */
export interface AppFolderSpec {
  readonly name: string;
  readonly hostPath: string;
  /** The stack that owns the folder; undefined if the App does. */
  readonly stack: string | undefined;
}

export function getAppFolders(dataDir: string, app: string): string {
  return join(dataDir, "folders", "apps", app);
}

export function getStackFolders(dataDir: string, stack: string): string {
  return join(dataDir, "folders", "stacks", stack);
}

/** Returns the path of a folder on this machine, and its owner. */
export function buildFolder(
  dataDir: string,
  app: string,
  stack: string | undefined,
  { name, shared }: Folder,
): AppFolderSpec {
  if (shared === true && stack !== undefined)
    return { name, hostPath: join(getStackFolders(dataDir, stack), name), stack };
  return { name, hostPath: join(getAppFolders(dataDir, app), name), stack: undefined };
}

/**
 * Makes a folder unless it exists. Programs of any user in a container may write to it. Other users of the machine
 * cannot reach it, because its parent folder is closed to them.
 */
export function makeFolder(path: string): void {
  try {
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) {
      if (statSync(path).isDirectory()) return;
      throw new BerthError("engine_error", `${path} is not a folder: move it away`);
    }
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    // The folder gets its permissions before its name, so that Berth may end in between. Names of folders have no dot.
    const draft = `${path}.new`;
    mkdirSync(draft, { recursive: true });
    chmodSync(draft, 0o777);
    renameSync(draft, path);
  } catch (error) {
    if (error instanceof BerthError) throw error;
    const message = `a folder of the app cannot be made below the data directory: ${formatErrorCode(error)}`;
    throw new BerthError(isDiskFull(error) ? "disk_full" : "engine_error", message);
  }
}
