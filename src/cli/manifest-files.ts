import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { BerthError, getErrorMessage } from "../base/errors.ts";
import type { Manifest } from "../resources/kinds.ts";
import { type ParseProblem, parseManifests } from "../resources/parse-manifests.ts";
import type { Cli } from "./cli.ts";
import { UsageError } from "./cli-errors.ts";
import { readAll } from "./read-input.ts";

export interface LocatedManifest {
  readonly manifest: Manifest;
  /** The path relative to the working directory; "-" is standard input. */
  readonly file: string;
  readonly line: number;
}

export interface ManifestFileProblem extends ParseProblem {
  readonly file: string;
}

export interface ManifestFiles {
  readonly files: readonly string[];
  readonly manifests: readonly LocatedManifest[];
  readonly problems: readonly ManifestFileProblem[];
}

/**
 * The maximum size of manifests from standard input. It is far above the maximum of an `apply` request, which the
 * server checks.
 */
const INPUT_BYTES_MAX = 8 * 1024 * 1024;
const extensions = [".yaml", ".yml", ".json"];

/**
 * Reads the paths of -f: files, folders with all spec files below them (except hidden ones, as in the
 * watched folder), and - for standard input. Throws UsageError for a path that does not exist.
 */
export async function readManifestFiles(
  cli: Cli,
  paths: readonly string[],
): Promise<ManifestFiles> {
  const files: string[] = [];
  const manifests: LocatedManifest[] = [];
  const problems: ManifestFileProblem[] = [];
  const declared = new Map<string, LocatedManifest>();
  const addFile = (file: string, content: Uint8Array) => {
    files.push(file);
    const parsed = parseManifests(content);
    problems.push(...parsed.errors.map((error) => ({ ...error, file })));
    for (const { manifest, line, column } of parsed.documents) {
      const key = `${manifest.kind} "${manifest.metadata.name}"`;
      const first = declared.get(key);
      if (first !== undefined) {
        const message = `${key} is already declared in ${first.file}:${first.line}`;
        problems.push({ file, line, column, message });
        continue;
      }
      const located = { manifest, file, line };
      declared.set(key, located);
      manifests.push(located);
    }
  };
  if (paths.filter((path) => path === "-").length > 1)
    throw new UsageError("standard input can be read only once");
  for (const path of paths) {
    if (path === "-") {
      addFile("-", await readAll(cli.io.input, INPUT_BYTES_MAX));
      continue;
    }
    const absolute = resolve(cli.io.workingDirectory, path);
    for (const file of listSpecFiles(absolute, path))
      addFile(displayPath(cli, file), readInputFile(file));
  }
  return { files, manifests, problems };
}

/** Formats problems as `file:line:column: message` lines, which editors turn into links. */
export function problemLines(problems: readonly ManifestFileProblem[]): string {
  return problems
    .map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`)
    .join("\n");
}

/** Returns the manifests. Throws BerthError if any of the files is not valid, or none declares a resource. */
export function requireManifests(read: ManifestFiles): readonly LocatedManifest[] {
  if (read.problems.length > 0) {
    const count = read.problems.length;
    // The fields uid, resourceVersion and status show that the output of `berth get -o yaml` was used as a manifest.
    const isAnswer = read.problems.some(({ message }) =>
      /"(uid|resourceVersion|status)"/.test(message),
    );
    throw new BerthError(
      "invalid_spec",
      `${count === 1 ? "a file is" : "files are"} not valid, so nothing was done\n${problemLines(read.problems)}`,
      isAnswer
        ? { hint: "`berth get KIND NAME -o yaml --export` prints manifests without status" }
        : {},
    );
  }
  if (read.manifests.length === 0)
    throw new BerthError(
      "invalid_request",
      read.files.length === 0
        ? "the folder contains no .yaml, .yml or .json file"
        : `no resource is declared in ${read.files.join(", ")}`,
      { hint: "`berth help apply` shows examples" },
    );
  return read.manifests;
}

function listSpecFiles(absolute: string, asWritten: string): string[] {
  const status = statSync(absolute, { throwIfNoEntry: false });
  if (status === undefined) throw new UsageError(`there is no file or folder ${asWritten}`);
  // A file that the user names is read whatever its extension.
  if (!status.isDirectory()) return [absolute];
  return readdirSync(absolute, { withFileTypes: true, recursive: true })
    .filter((entry) => extensions.some((extension) => entry.name.endsWith(extension)))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter(
      (file) =>
        !relative(absolute, file)
          .split("/")
          .some((part) => part.startsWith(".")),
    )
    .filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true)
    .toSorted();
}

function readInputFile(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new BerthError("invalid_request", `cannot read ${file}: ${getErrorMessage(error)}`);
  }
}

function displayPath(cli: Cli, file: string): string {
  const below = relative(cli.io.workingDirectory, file);
  return below.startsWith("..") ? file : below;
}
