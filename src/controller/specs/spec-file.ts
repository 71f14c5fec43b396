import { dirname, resolve } from "node:path";
import {
  type ParsedDocument,
  type ParseProblem,
  parseManifests,
} from "../../resources/parse-manifests.ts";
import { isKind } from "../../resources/resource.ts";
import type { SpecFileReport } from "../port.ts";
import type { FileAuthority } from "./file-trust.ts";
import type { FileView, ResourceKey } from "./prune-guard.ts";
import type { FileContent } from "./read-spec-file.ts";
import type { ScannedFile } from "./scan-folder.ts";

/**
 * The state of one file of the folder:
 * - invalid: its text cannot be read or parsed. It changes nothing, and its resources stay declared.
 * - conflict: parsed, but refused by the store. Each scan tries it again.
 * - applied: the store has its content.
 */
export interface SpecFile extends FileView {
  readonly path: string;
  readonly stamp: string;
  /** The sha256 of the file's text; empty if the text cannot be read. */
  readonly hash: string;
  readonly state: SpecFileReport["state"];
  /** True if the store has refused the file for a reason that may pass without an edit. */
  readonly shouldRetry: boolean;
  readonly resources: SpecFileReport["resources"];
  readonly errors: readonly ParseProblem[];
  readonly time: string;
}

/** The text of a file as read in this scan. */
export interface LoadedFile {
  readonly path: string;
  readonly stamp: string;
  readonly hash: string;
  readonly authority: FileAuthority;
  readonly documents: readonly ParsedDocument[];
  readonly errors: readonly ParseProblem[];
  /** The resources that the text declares; undefined if it cannot be parsed. */
  readonly keys: readonly ResourceKey[] | undefined;
  readonly mentions: (word: string) => boolean;
}

/** Parses a spec file's content. Local sources are relative to `folder`, the path of the watched folder. */
export function loadFile(
  folder: string,
  path: string,
  scanned: ScannedFile,
  content: FileContent,
  authority: FileAuthority,
): LoadedFile {
  const { stamp } = scanned;
  if ("problem" in content) {
    const error = { line: 1, column: 1, message: content.problem };
    return {
      path,
      stamp,
      hash: "",
      authority,
      documents: [],
      errors: [error],
      keys: undefined,
      mentions: mentionsNothing,
    };
  }
  const { documents: written, errors } = parseManifests(content.bytes);
  const { hash } = content;
  if (errors.length > 0) {
    const text = Buffer.from(content.bytes).toString("latin1");
    const mentions = (word: string) => hasWord(text, word);
    return { path, stamp, hash, authority, documents: [], errors, keys: undefined, mentions };
  }
  const documents = written.map((document) => withAbsoluteSource(document, folder, path));
  const keys = documents.map(({ manifest }) => ({
    kind: manifest.kind,
    name: manifest.metadata.name,
  }));
  return { path, stamp, hash, authority, documents, errors, keys, mentions: mentionsNothing };
}

export function buildFileReport(file: SpecFile): SpecFileReport {
  const { path, state, hash, resources, errors, time } = file;
  return { file: path, state, contentHash: hash, resources, errors, time };
}

export function formatFileManager(path: string): string {
  return `${MANAGER_PREFIX}${path}`;
}

export function parseFileManager(manager: string): string {
  return manager.slice(MANAGER_PREFIX.length);
}

export const MANAGER_PREFIX = "file:";

const mentionsNothing = () => false;

/**
 * Returns true if the text contains the name `word`. The only character of such a name that is neither a letter nor a
 * digit is the hyphen, which needs no escaping in the pattern and counts as part of a word.
 */
function hasWord(text: string, word: string): boolean {
  return new RegExp(`(?<![a-z0-9-])${word}(?![a-z0-9-])`).test(text);
}

/**
 * Makes the folder of a local source absolute for the store, because a file names the folder relative to the place of
 * the file. `folder` is the watched folder as configured rather than its real path, because its links may change.
 */
function withAbsoluteSource(
  document: ParsedDocument,
  folder: string,
  path: string,
): ParsedDocument {
  const { manifest } = document;
  if (!isKind(manifest, "App")) return document;
  const { source } = manifest.spec;
  if (source === undefined || !("local" in source)) return document;
  const local = resolve(folder, dirname(path), source.local);
  return { ...document, manifest: { ...manifest, spec: { ...manifest.spec, source: { local } } } };
}
