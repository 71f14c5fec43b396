import { basename, join } from "node:path";
import type { Environment } from "../../../base/environment.ts";
import { messageOf } from "../../../base/errors.ts";
import type { ManifestFault } from "../manifest.ts";
import { manifestDirectories } from "./directories.ts";
import { Faults } from "./faults.ts";
import { jsonPlaces, type Place, placeAt } from "./json-places.ts";
import { pointerBelow } from "./json-pointer.ts";
import { isManifestName, listManifests, readManifestFile, stemOf } from "./manifest-file.ts";
import type { ParsedManifest } from "./parse-manifest.ts";
import { type Candidate, type ManifestReport, reportOf } from "./report.ts";
import { compileSchema } from "./schema-compiler.ts";

/** A fault, and where it is in the text, where that can be told. */
export interface LocatedFault extends ManifestFault {
  readonly place: Place | undefined;
}

export interface LintedManifest extends ManifestReport {
  readonly file: string;
  readonly faults: readonly LocatedFault[];
}

export interface LintResult {
  /** Which folders were looked at, in the order in which they win. */
  readonly directories: readonly string[];
  readonly manifests: readonly LintedManifest[];
  /** Folders that cannot be read, or not all of them. */
  readonly problems: readonly { readonly directory: string; readonly message: string }[];
}

/** What to look at: the folders of a user, folders in their order, or single files, whatever they are called. */
export type LintSubject =
  | { readonly environment: Environment; readonly homeDirectory: string }
  | { readonly directories: readonly string[] }
  | { readonly files: readonly string[] };

/** Judges manifests as the registry would, without a daemon. Never rejects: a file that is not there is a fault. */
export async function lintManifests(
  subject: LintSubject,
  userId: number = process.getuid?.() ?? 0,
): Promise<LintResult> {
  if ("files" in subject) {
    const linted = await Promise.all(subject.files.map((file) => lintOne(file, userId)));
    return { directories: [], manifests: reported(linted, false), problems: [] };
  }
  const directories =
    "directories" in subject
      ? subject.directories
      : manifestDirectories(subject.environment, subject.homeDirectory);
  const linted: Linted[] = [];
  const problems: { directory: string; message: string }[] = [];
  for (const directory of directories) {
    const { names, problem } = await listManifests(directory);
    if (problem !== undefined) problems.push({ directory, message: problem });
    for (const name of names) linted.push(await lintOne(join(directory, name), userId));
  }
  return { directories, manifests: reported(linted, true), problems };
}

interface Linted extends Candidate {
  readonly file: string;
  readonly faults: readonly LocatedFault[];
}

async function lintOne(file: string, userId: number): Promise<Linted> {
  const name = basename(file);
  const expected = isManifestName(name) ? stemOf(name) : undefined;
  const read = await readManifestFile(file, expected, userId);
  const { manifest, appId, tools, faults } = read?.parsed ?? absent;
  const all = [...faults, ...(manifest ? compileFaults(tools) : [])];
  const isGood = !all.some(({ severity }) => severity === "error");
  return {
    appId: expected ?? appId ?? name,
    file,
    manifest: isGood ? manifest : undefined,
    tools,
    faults: located(all, read?.bytes),
  };
}

const absent: ParsedManifest = {
  manifest: undefined,
  appId: undefined,
  tools: [],
  faults: [{ pointer: "", message: "there is no such file", severity: "error" }],
  isCut: false,
};

/** The registry leaves it to the first call: what has been checked compiles, and it takes a millisecond each. */
function compileFaults(tools: ParsedManifest["tools"]): readonly ManifestFault[] {
  const faults = new Faults();
  for (const [index, tool] of tools.entries()) {
    try {
      compileSchema(tool.inputSchema);
    } catch (error) {
      faults.error(pointerBelow("/tools", index, "input_schema"), messageOf(error));
    }
  }
  return faults.list();
}

/** In the order of the text. */
function located(
  faults: readonly ManifestFault[],
  bytes: Uint8Array | undefined,
): readonly LocatedFault[] {
  const text = bytes && new TextDecoder().decode(bytes);
  const places = text === undefined ? undefined : jsonPlaces(text);
  const found = faults.map((fault) => {
    const offset = places && offsetOf(fault.pointer, places.offsets, places.fault);
    const place = text !== undefined && offset !== undefined ? placeAt(text, offset) : undefined;
    return { fault: { ...fault, place }, offset: offset ?? -1 };
  });
  return found.toSorted((a, b) => a.offset - b.offset).map(({ fault }) => fault);
}

/** Of the pointer, or of the nearest thing around it that is in the text: what is missing has no place. */
function offsetOf(
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

function reported(linted: readonly Linted[], isOrdered: boolean): readonly LintedManifest[] {
  const reports = isOrdered ? reportOf(linted) : linted.flatMap((one) => reportOf([one]));
  return linted.flatMap((one, index) => {
    const report = reports[index];
    return report ? [{ ...report, file: one.file, faults: one.faults }] : [];
  });
}
