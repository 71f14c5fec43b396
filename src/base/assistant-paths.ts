import { homedir, userInfo } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import type { Environment } from "./environment.ts";

export const ASSISTANT_DATA_DIR_VARIABLE = "BERTH_ASSISTANT_DATA_DIR";

/**
 * The state directory of an assistant, absolute: the flag, then BERTH_ASSISTANT_DATA_DIR, then
 * /var/lib/berth/assistant for root and the data directory of the user for everybody else. That is data,
 * not state as XDG has it: models, memory and the ledger are worth a backup.
 */
export function assistantDataDir(input: {
  readonly flag?: string | undefined;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly homeDirectory?: string | undefined;
  readonly userId?: number | undefined;
}): string {
  const { environment, workingDirectory } = input;
  const given = input.flag || environment[ASSISTANT_DATA_DIR_VARIABLE];
  const home = input.homeDirectory ?? environment["HOME"] ?? homedir();
  if (given) {
    const expanded = given === "~" || given.startsWith("~/") ? join(home, given.slice(1)) : given;
    return resolve(workingDirectory, expanded);
  }
  if ((input.userId ?? userInfo().uid) === 0) return "/var/lib/berth/assistant";
  const data = environment["XDG_DATA_HOME"];
  // The XDG specification says that a relative value is invalid and to be ignored.
  return join(data && isAbsolute(data) ? data : join(home, ".local/share"), "berth/assistant");
}

/** Where an assistant with this data directory listens for whoever drives it. */
export function assistantControlSocket(dataDir: string): string {
  return join(dataDir, "run/control.sock");
}
