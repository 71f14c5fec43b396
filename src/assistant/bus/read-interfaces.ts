import { readdirSync, readFileSync } from "node:fs";
import { type InterfaceDescription, parseInterfaceFile } from "./parse-interface-file.ts";

/**
 * The folder with the interface files, which ships with the package. This module is three folders below the package
 * root, both in the source tree and in the build.
 */
const folder = new URL("../../../dbus/interfaces/", import.meta.url);

/** Reads all files in `dbus/interfaces/` and returns their interfaces by name. */
export function readInterfaces(): ReadonlyMap<string, InterfaceDescription> {
  const files = readdirSync(folder).filter((name) => name.endsWith(".xml"));
  const found = files.flatMap((name) =>
    parseInterfaceFile(readFileSync(new URL(name, folder), "utf8")),
  );
  return new Map(found.map((description) => [description.name, description]));
}
