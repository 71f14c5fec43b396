import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import {
  type ComposeImport,
  type ImportOptions,
  importCompose,
} from "../../../src/compose/import-compose.ts";
import { readFolderFiles } from "../../support/compose-reader.ts";

export const fixturesFolder = join(import.meta.dirname, "../../fixtures/compose");

/** The options of an import, without its files. */
export type ImportOverrides = Partial<Omit<ImportOptions, "files">>;

/** Imports a fixture; the fixture's folder is the folder of the spec files. */
export function importFixture(file: string, extra: ImportOverrides = {}): ComposeImport {
  const path = join(fixturesFolder, file);
  return importCompose(
    { files: [path], specFolder: dirname(path), home: "/home/me", ...extra },
    readFolderFiles(fixturesFolder),
  );
}

/** Imports files that exist only in memory, in the folder `/project`; the first one is the Compose file. */
export function importTexts(
  texts: Readonly<Record<string, string>>,
  extra: ImportOverrides = {},
): ComposeImport {
  const files = new Map(
    Object.entries(texts).map(([name, text]) => [join("/project", name), text]),
  );
  const [first = ""] = files.keys();
  return importCompose(
    { files: [first], specFolder: "/project", home: "/home/me", ...extra },
    {
      read: (path) => {
        const text = files.get(path);
        return text === undefined ? { problem: "there is no such file" } : { text };
      },
      list: (path) =>
        [...files.keys()].filter((file) => file === path || file.startsWith(`${path}/`)),
      displayPath: (path) => relative("/project", path),
    },
  );
}

/** Returns the spec of each App by the name of its service. */
export function collectSpecs({ apps }: ComposeImport) {
  return Object.fromEntries(apps.map(({ service, manifest }) => [service, manifest.spec]));
}

/** Returns the findings as `file:line level`, without duplicates. */
export function collectFindingLines({ findings }: ComposeImport): string[] {
  return [
    ...new Set(findings.map(({ file, line, level }) => `${file}:${line} ${level}`)),
  ].toSorted();
}

/** Reads the expected findings from the comments at the ends of the fixture's lines. */
export function readExpectedLines(file: string): string[] {
  const text = readFileSync(join(fixturesFolder, file), "utf8");
  return text.split("\n").flatMap((line, index) => {
    const levels = / {2}# ((?:(?:note|changed|lost|unsafe|failed) ?)+)$/.exec(line)?.[1] ?? "";
    return levels
      .split(" ")
      .flatMap((level) => (level === "" ? [] : [`${file}:${index + 1} ${level}`]));
  });
}
