import { existsSync } from "node:fs";
import { join } from "node:path";
import { findUntrustedStep, listPathSteps } from "../../base/path-trust.ts";
import type { SpecsTrust } from "../../config/server-settings.ts";
import type { TokenScope } from "../../store/store.ts";
import { MARKER_FILE } from "./git-marker.ts";

/** The authority of a spec file: what its author may write, and how the file can get the scope `admin`. */
export interface FileAuthority {
  readonly scope: TokenScope;
  readonly adminHint?: string;
}

export interface FileTrustOptions {
  /** The watched folder as configured, so that the links on its path are checked too. */
  readonly folder: string;
  readonly trust: SpecsTrust;
  /** The user who runs Berth. */
  readonly userId?: number;
}

/**
 * Returns the authority of a spec file. If only root and the user who runs Berth can write or replace the file, it has
 * the authority of that user. A file from a repository, or a file that other users can change, has the authority of a
 * token with scope `write`.
 */
export function findFileAuthority(file: string, options: FileTrustOptions): FileAuthority {
  const { folder, trust, userId = process.getuid?.() ?? 0 } = options;
  if (trust === "all") return { scope: "admin" };
  const orTrustAll = "or set specs_trust to all if you trust everyone who can change spec files";
  if (trust === "none")
    return { scope: "write", adminHint: "set specs_trust to folder in the configuration of Berth" };
  try {
    const steps = listPathSteps(join(folder, file));
    if (steps.some(({ path, stats }) => stats.isDirectory() && existsSync(join(path, MARKER_FILE))))
      return {
        scope: "write",
        adminHint: `move the file from the repository into the specs folder itself, ${orTrustAll}`,
      };
    const open = findUntrustedStep(steps, userId);
    if (open === undefined) return { scope: "admin" };
    const isFile = open === steps.at(-1);
    const what = isFile ? "the file" : "the specs folder, or a folder around it,";
    return {
      scope: "write",
      adminHint: `make sure that only root and the user who runs Berth own and can write ${what} (chmod go-w, chown), ${orTrustAll}`,
    };
  } catch {
    return { scope: "write", adminHint: `make the file readable for Berth, ${orTrustAll}` };
  }
}
