import { basename, join } from "node:path";
import { BERTH_APPS_ID } from "../../../base/berth-tool-manifest.ts";
import { getErrorMessage } from "../../../base/errors.ts";
import type { Environment } from "../../../base/process-environment.ts";
import type { ManifestFault } from "../tool-manifest.ts";
import { pointerBelow } from "./json-pointer.ts";
import { getTextPosition, scanJsonPositions, type TextPosition } from "./json-positions.ts";
import { manifestDirectories } from "./manifest-directories.ts";
import { FaultCollector } from "./manifest-faults.ts";
import { getFileStem, isManifestName, listManifests, readManifestFile } from "./manifest-file.ts";
import {
  buildManifestReports,
  findBuiltInIdFault,
  type ManifestCandidate,
  type ManifestReport,
} from "./manifest-report.ts";
import type { ParsedManifest } from "./parse-manifest.ts";
import { compileInputSchema } from "./schema-compiler.ts";

/** A fault with its position in the text, if the position is known. */
export interface LocatedFault extends ManifestFault {
  readonly place: TextPosition | undefined;
}

export interface LintedManifest extends ManifestReport {
  readonly file: string;
  readonly faults: readonly LocatedFault[];
}

export interface LintResult {
  /** The folders that were searched, highest priority first. */
  readonly directories: readonly string[];
  readonly manifests: readonly LintedManifest[];
  /** Folders that could not be read completely, each with the reason. */
  readonly problems: readonly { readonly directory: string; readonly message: string }[];
}

/** The manifests to check: the standard folders of a user, given folders by priority, or single files with any name. */
export type LintSubject =
  | { readonly environment: Environment; readonly homeDirectory: string }
  | { readonly directories: readonly string[] }
  | { readonly files: readonly string[] };

/** Checks manifests with the rules of ManifestRegistry, without a daemon. Never rejects: a missing file is a fault. */
export async function lintManifests(
  subject: LintSubject,
  userId: number = process.getuid?.() ?? 0,
): Promise<LintResult> {
  if ("files" in subject) {
    const linted = await Promise.all(subject.files.map((file) => lintFile(file, userId)));
    return { directories: [], manifests: toLintedManifests(linted, false), problems: [] };
  }
  const directories =
    "directories" in subject
      ? subject.directories
      : manifestDirectories(subject.environment, subject.homeDirectory);
  const linted: LintCandidate[] = [];
  const problems: { directory: string; message: string }[] = [];
  for (const directory of directories) {
    const { names, problem } = await listManifests(directory);
    if (problem !== undefined) problems.push({ directory, message: problem });
    for (const name of names) linted.push(await lintFile(join(directory, name), userId));
  }
  return { directories, manifests: toLintedManifests(linted, true), problems };
}

interface LintCandidate extends ManifestCandidate {
  readonly file: string;
  readonly faults: readonly LocatedFault[];
}

async function lintFile(file: string, userId: number): Promise<LintCandidate> {
  const name = basename(file);
  const expected = isManifestName(name) ? getFileStem(name) : undefined;
  const read = await readManifestFile(file, expected, userId);
  const { manifest, appId, tools, faults } = read?.parsed ?? absentFile;
  const idFault = appId === undefined ? undefined : findBuiltInIdFault(appId, [BERTH_APPS_ID]);
  const all = [
    ...(idFault ? [idFault] : []),
    ...faults,
    ...(manifest ? findCompileFaults(tools) : []),
  ];
  const isGood = !all.some(({ severity }) => severity === "error");
  return {
    appId: expected ?? appId ?? name,
    file,
    manifest: isGood ? manifest : undefined,
    tools,
    faults: locateFaults(all, read?.bytes),
  };
}

const absentFile: ParsedManifest = {
  manifest: undefined,
  appId: undefined,
  tools: [],
  faults: [{ pointer: "", message: "there is no such file", severity: "error" }],
  isIncomplete: false,
};

/**
 * Compiles the input schemas of the tools with Ajv, as the registry does at the first call of a tool. This finds a
 * schema that passed the earlier checks but would fail at that call.
 */
function findCompileFaults(tools: ParsedManifest["tools"]): readonly ManifestFault[] {
  const faults = new FaultCollector();
  for (const [index, tool] of tools.entries()) {
    try {
      compileInputSchema(tool.inputSchema);
    } catch (error) {
      faults.error(pointerBelow("/tools", index, "input_schema"), getErrorMessage(error));
    }
  }
  return faults.list();
}

/** Adds positions to the faults and sorts them by position. */
function locateFaults(
  faults: readonly ManifestFault[],
  bytes: Uint8Array | undefined,
): readonly LocatedFault[] {
  const text = bytes && new TextDecoder().decode(bytes);
  const places = text === undefined ? undefined : scanJsonPositions(text);
  const found = faults.map((fault) => {
    const offset = places && findOffset(fault.pointer, places.offsets, places.errorOffset);
    const place =
      text !== undefined && offset !== undefined ? getTextPosition(text, offset) : undefined;
    return { fault: { ...fault, place }, offset: offset ?? -1 };
  });
  return found.toSorted((a, b) => a.offset - b.offset).map(({ fault }) => fault);
}

/**
 * Returns the offset of the value at `pointer`; if the value is missing, the offset of its nearest ancestor in the
 * text.
 */
function findOffset(
  pointer: string,
  offsets: ReadonlyMap<string, number>,
  fault: number | undefined,
): number | undefined {
  if (fault !== undefined) return fault;
  for (let path = pointer; path !== ""; path = path.slice(0, path.lastIndexOf("/"))) {
    const offset = offsets.get(path);
    if (offset !== undefined) return offset;
  }
  return pointer === "" ? undefined : offsets.get("");
}

function toLintedManifests(
  linted: readonly LintCandidate[],
  isOrdered: boolean,
): readonly LintedManifest[] {
  const reports = isOrdered
    ? buildManifestReports(linted)
    : linted.flatMap((one) => buildManifestReports([one]));
  return linted.flatMap((one, index) => {
    const report = reports[index];
    return report ? [{ ...report, file: one.file, faults: one.faults }] : [];
  });
}
