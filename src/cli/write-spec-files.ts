import { readFileSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { BerthError, getErrorCode, getErrorMessage } from "../base/errors.ts";
import type { ImportedApp } from "../compose/import-compose.ts";
import { parseManifests } from "../resources/parse-manifests.ts";
import { ORIGIN_ANNOTATION } from "../resources/resource.ts";
import type { Cli } from "./cli.ts";

/**
 * Writes the spec files of an import, all or none. Refuses to replace existing files without `isForced`, and always
 * refuses to replace a file that the import of another project, or a person, has written.
 */
export async function writeSpecFiles(
  cli: Cli,
  folder: string,
  apps: readonly ImportedApp[],
  texts: ReadonlyMap<string, string>,
  isForced: boolean,
): Promise<void> {
  const present = apps.flatMap(({ manifest: { metadata } }) => {
    const path = getSpecFilePath(folder, metadata.name);
    const text = readIfPresent(path);
    const own = metadata.annotations?.[ORIGIN_ANNOTATION];
    return text === undefined ? [] : [{ path, isForeign: readOrigin(text) !== own }];
  });
  const foreign = present.filter(({ isForeign }) => isForeign);
  const refused = isForced ? foreign : present;
  if (refused.length > 0) {
    const names = refused.map(({ path }) => displayPath(cli, path)).join(", ");
    const what = refused.length === 1 ? "exists" : "exist";
    throw new BerthError("invalid_request", `nothing was written: ${names} already ${what}`, {
      hint:
        foreign.length > 0
          ? `not made by the import of this project: ${foreign.map(({ path }) => displayPath(cli, path)).join(", ")}; delete it yourself, choose another folder with -o, or another stack with --stack`
          : "replace them with --force, or choose another folder with -o",
    });
  }
  const written: { readonly temporary: string; readonly path: string }[] = [];
  try {
    await mkdir(folder, { recursive: true });
    for (const [app, text] of texts) {
      const path = getSpecFilePath(folder, app);
      const temporary = `${path}.new`;
      written.push({ temporary, path });
      await writeFile(temporary, text, { flag: "wx" }).catch((error: unknown) => {
        // The file belongs to another program or person, so the clean-up after this error must not remove it.
        if (getErrorCode(error) === "EEXIST") written.pop();
        throw error;
      });
    }
    for (const { temporary, path } of written) await rename(temporary, path);
  } catch (error) {
    for (const { temporary } of written) await rm(temporary, { force: true });
    throw new BerthError("invalid_request", `cannot write the files: ${getErrorMessage(error)}`);
  }
}

export function getSpecFilePath(folder: string, app: string): string {
  return join(folder, `${app}.yaml`);
}

export function displayPath(cli: Cli, path: string): string {
  const below = relative(cli.io.workingDirectory, path);
  return below.startsWith("..") ? path : below;
}

function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** Returns the origin of the first resource of a spec file, such as an import; undefined if a person wrote the file. */
function readOrigin(text: string): string | undefined {
  return parseManifests(text).documents[0]?.manifest.metadata.annotations?.[ORIGIN_ANNOTATION];
}
