import { existsSync, lstatSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { getErrorCode } from "../base/errors.ts";
import type { ComposeFileReader, FileText } from "../compose/load-project.ts";
import { SPEC_FILE_BYTES_MAX } from "../resources/parse-manifests.ts";
import type { Cli } from "./cli.ts";
import { UsageError } from "./cli-errors.ts";
import { readAll } from "./read-input.ts";

/**
 * The file names that Compose looks for if the user names no file. Compose merges the first existing override file over
 * the first existing standard file.
 */
const standardNames = [
  "compose.yaml",
  "compose.yml",
  "docker-compose.yaml",
  "docker-compose.yml",
] as const;
const overrideNames = [
  "compose.override.yaml",
  "compose.override.yml",
  "docker-compose.override.yaml",
  "docker-compose.override.yml",
] as const;

/**
 * Returns the absolute paths of the Compose files in the order in which they are merged. Throws UsageError if there is
 * no Compose file.
 */
export function findComposeFiles(cli: Cli, namedPaths: readonly string[]): string[] {
  const folder = cli.io.workingDirectory;
  if (namedPaths.length > 0) {
    return namedPaths.map((path) => {
      const absolute = resolve(folder, path);
      if (path === "-") return absolute;
      const status = statSync(absolute, { throwIfNoEntry: false });
      if (status === undefined) throw new UsageError(`there is no file ${path}`);
      if (status.isDirectory()) throw new UsageError(`${path} is a folder; name the file in it`);
      return absolute;
    });
  }
  const standard = standardNames.find((name) => existsSync(join(folder, name)));
  if (standard === undefined) {
    throw new UsageError(
      "there is no Compose file here",
      "berth import FILE, or berth import - for standard input",
    );
  }
  const override = overrideNames.find((name) => existsSync(join(folder, name)));
  return [standard, ...(override === undefined ? [] : [override])].map((name) =>
    join(folder, name),
  );
}

/** Reads files of this machine; `-` in the working directory is standard input, which is read once, in advance. */
export async function createComposeFileReader(
  cli: Cli,
  paths: readonly string[],
): Promise<ComposeFileReader> {
  const folder = cli.io.workingDirectory;
  const standardInput = resolve(folder, "-");
  const input = paths.includes(standardInput)
    ? decodeUtf8(await readAll(cli.io.input, SPEC_FILE_BYTES_MAX))
    : undefined;
  return {
    read: (path) => (path === standardInput && input ? input : readText(path)),
    list: listSmallFiles,
    resolveLinks,
    exists: existsSync,
    displayPath: (path) => {
      const below = relative(folder, path);
      return below.startsWith("..") ? path : below;
    },
  };
}

function resolveLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(resolveLinks(parent), basename(path));
  }
}

const FILES_LISTED_MAX = 500;
const FILES_VISITED_MAX = 5000;
const FILE_BYTES_MAX = 256 * 1024;
/**
 * Folders that are not searched for files that mention a service's name: installed packages, Git's data and build
 * output.
 */
const skippedFolders: readonly string[] = [
  "node_modules",
  ".git",
  "vendor",
  "venv",
  ".venv",
  "dist",
];

/**
 * Lists small files below a path, breadth first, and visits at most FILES_VISITED_MAX files and folders, so that a
 * large folder costs little.
 */
function listSmallFiles(path: string): string[] {
  const found: string[] = [];
  const queue = [path];
  for (
    let visited = 0;
    visited < FILES_VISITED_MAX && found.length < FILES_LISTED_MAX;
    visited += 1
  ) {
    const next = queue.shift();
    if (next === undefined) break;
    try {
      const status = lstatSync(next);
      if (status.isDirectory()) {
        const names = readdirSync(next).filter((name) => !skippedFolders.includes(name));
        queue.push(...names.slice(0, FILES_LISTED_MAX).map((name) => join(next, name)));
      } else if (status.isFile() && status.size <= FILE_BYTES_MAX) found.push(next);
    } catch {
      // A file or folder that cannot be read is left out.
    }
  }
  return found;
}

function readText(path: string): FileText {
  try {
    const status = statSync(path);
    if (!status.isFile()) return { problem: "the file is not a regular file" };
    if (status.size > SPEC_FILE_BYTES_MAX) return { problem: "the file is larger than 1 MiB" };
    return decodeUtf8(readFileSync(path));
  } catch (error) {
    const code = getErrorCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return { problem: "there is no such file" };
    return {
      problem: code === "EACCES" ? "this user may not read the file" : "the file cannot be opened",
    };
  }
}

function decodeUtf8(bytes: Uint8Array): FileText {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
  } catch {
    return { problem: "the file is not UTF-8 text" };
  }
}
