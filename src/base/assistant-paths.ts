import { homedir, userInfo } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import type { Environment } from "./process-environment.ts";

export const ASSISTANT_DATA_DIR_VARIABLE = "BERTH_ASSISTANT_DATA_DIR";

/**
 * Returns the absolute data directory of an assistant: the value of the flag, otherwise the value of
 * BERTH_ASSISTANT_DATA_DIR, otherwise the default. The default is /var/lib/berth/assistant for root, and a folder
 * below $XDG_DATA_HOME for other users. In the terms of XDG the folder is data rather than state, because models,
 * memory and the ledger are worth a backup.
 */
export function resolveAssistantDataDir(
  input: StateDirectoryOptions & { readonly userId?: number | undefined },
): string {
  if (!isConfigured(input) && (input.userId ?? userInfo().uid) === 0)
    return "/var/lib/berth/assistant";
  return resolveStateDirectory(input, "assistant");
}

/** Returns the absolute data directory of a companion. Its default is always in the user's home directory. */
export function resolveCompanionDataDir(input: StateDirectoryOptions): string {
  return resolveStateDirectory(input, "companion");
}

interface StateDirectoryOptions {
  readonly flag?: string | undefined;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly homeDirectory?: string | undefined;
}

function isConfigured({ flag, environment }: StateDirectoryOptions): boolean {
  return Boolean(flag || environment[ASSISTANT_DATA_DIR_VARIABLE]);
}

function resolveStateDirectory(input: StateDirectoryOptions, name: string): string {
  const { environment, workingDirectory } = input;
  const given = input.flag || environment[ASSISTANT_DATA_DIR_VARIABLE];
  const home = input.homeDirectory ?? environment["HOME"] ?? homedir();
  if (given) {
    const expanded = given === "~" || given.startsWith("~/") ? join(home, given.slice(1)) : given;
    return resolve(workingDirectory, expanded);
  }
  return join(
    parseXdgDirectory(environment["XDG_DATA_HOME"]) ?? join(home, ".local/share"),
    "berth",
    name,
  );
}

/** Returns an absolute path from an XDG variable. Relative values are ignored, as the XDG specification requires. */
export function parseXdgDirectory(value: string | undefined): string | undefined {
  return value && isAbsolute(value) ? value : undefined;
}

/** Returns the path of the socket on which an assistant with this data directory accepts control requests. */
export function getAssistantControlSocket(dataDir: string): string {
  return join(dataDir, "run/control.sock");
}
