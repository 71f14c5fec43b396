import { readdirSync, readFileSync } from "node:fs";
import { type InterfaceDescription, parseInterfaceFile } from "./parse-interface-file.ts";

/** They are shipped; this lies three folders below the package, both in the source tree and in the built one. */
const folder = new URL("../../../dbus/interfaces/", import.meta.url);

/** Every interface of `dbus/interfaces/`, by its name. */
export function readInterfaces(): ReadonlyMap<string, InterfaceDescription> {
  const files = readdirSync(folder).filter((name) => name.endsWith(".xml"));
  const found = files.flatMap((name) =>
    parseInterfaceFile(readFileSync(new URL(name, folder), "utf8")),
  );
  return new Map(found.map((description) => [description.name, description]));
}
