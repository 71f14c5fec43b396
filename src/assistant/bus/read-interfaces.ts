import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../base/package-root.ts";
import { type InterfaceDescription, parseInterfaceFile } from "./parse-interface-file.ts";

/** The folder with the interface files, which ships with the package. */
const folder = join(packageRoot, "dbus/interfaces");

/** Reads all files in `dbus/interfaces/` and returns their interfaces by name. */
export function readInterfaces(): ReadonlyMap<string, InterfaceDescription> {
  const files = readdirSync(folder).filter((name) => name.endsWith(".xml"));
  const found = files.flatMap((name) =>
    parseInterfaceFile(readFileSync(join(folder, name), "utf8")),
  );
  return new Map(found.map((description) => [description.name, description]));
}
