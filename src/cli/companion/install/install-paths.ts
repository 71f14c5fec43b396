import { homedir } from "node:os";
import { join } from "node:path";
import { parseXdgDirectory } from "../../../base/assistant-paths.ts";
import { COMPANION_UNIT, companionBusNames } from "../../../base/companion-names.ts";
import type { Environment } from "../../../base/process-environment.ts";

/** The paths of a user's own units and bus services, from systemd.unit(5) and the XDG directories. */
export interface InstallPaths {
  readonly unit: string;
  /** The bus service files, one for each bus name. */
  readonly services: readonly { readonly name: string; readonly file: string }[];
}

export function resolveInstallPaths(environment: Environment): InstallPaths {
  const home = environment["HOME"] || homedir();
  const configHome = parseXdgDirectory(environment["XDG_CONFIG_HOME"]) ?? join(home, ".config");
  const dataHome = parseXdgDirectory(environment["XDG_DATA_HOME"]) ?? join(home, ".local/share");
  return {
    unit: join(configHome, "systemd/user", COMPANION_UNIT),
    services: companionBusNames.map((name) => ({
      name,
      file: join(dataHome, "dbus-1/services", `${name}.service`),
    })),
  };
}
