import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * The folder of Berth's package.json, as an absolute path. It contains `bin`, `dbus` and `templates`. The path from a
 * module to it differs between the sources and the bundle.
 */
export const packageRoot = findPackageRoot(import.meta.dirname);

function findPackageRoot(folder: string): string {
  if (existsSync(join(folder, "package.json"))) return folder;
  const parent = dirname(folder);
  if (parent === folder) throw new Error("Berth's package.json is missing: install Berth again");
  return findPackageRoot(parent);
}
