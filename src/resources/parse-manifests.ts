import { isUtf8 } from "node:buffer";
import type { Document, LineCounter, YAMLParseError } from "yaml";
import type { SpecIssue } from "../base/errors.ts";
import { formatPointer, parsePointer } from "./json-pointer.ts";
import type { Manifest } from "./kinds.ts";
import { formatIssue, tryValidateManifest } from "./validate-manifest.ts";
import { readYaml } from "./yaml-documents.ts";
import { readYamlTree, type YamlTree } from "./yaml-tree.ts";

/** A position in a text. Both numbers count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export interface ParseProblem extends Position {
  readonly message: string;
}

export interface ParsedDocument extends Position {
  readonly manifest: Manifest;
  /** Returns the position of the field of a JSON Pointer, or of its nearest ancestor in the text. */
  readonly locate: (path: string) => Position;
}

/** Documents and errors of a file. The caller decides if errors in some documents invalidate the others. */
export interface ParsedManifestFile {
  readonly documents: readonly ParsedDocument[];
  /** The errors, sorted by position. */
  readonly errors: readonly ParseProblem[];
}

export const SPEC_FILE_BYTES_MAX = 1_048_576;
const DOCUMENTS_MAX = 1000;
/**
 * The maximum number of errors. Users fix the first errors first. The limit also bounds the response for invalid
 * files.
 */
const ERRORS_MAX = 50;

/**
 * Parses a spec file with one or several documents in YAML 1.2 core, which includes JSON. Skips empty documents. Never
 * throws, regardless of the content of the file.
 */
export function parseManifests(input: string | Uint8Array): ParsedManifestFile {
  const text = decode(input);
  if (typeof text !== "string") return createFailedFile(text);
  const yaml = readYaml(text, DOCUMENTS_MAX);
  if (yaml.stopped) {
    const { offset, message } = yaml.stopped;
    return createFailedFile({ ...getPosition(yaml.lines, offset), message });
  }

  const documents: ParsedDocument[] = [];
  const errors: ParseProblem[] = [];
  const declared = new Map<string, ParsedDocument>();
  for (const document of yaml.documents) {
    const read = parseDocument(document, yaml.lines);
    if ("errors" in read) {
      errors.push(...read.errors);
      continue;
    }
    const { kind, metadata } = read.manifest;
    const first = declared.get(`${kind}/${metadata.name}`);
    if (first) {
      const message = `${kind} "${metadata.name}" is declared already in line ${first.line} of this file`;
      errors.push({ ...read.locate("/metadata/name"), message });
      continue;
    }
    declared.set(`${kind}/${metadata.name}`, read);
    documents.push(read);
  }
  errors.sort((a, b) => a.line - b.line || a.column - b.column);
  return { documents, errors: errors.slice(0, ERRORS_MAX) };
}

function parseDocument(
  document: Document.Parsed,
  lines: LineCounter,
): ParsedDocument | { errors: ParseProblem[] } {
  const at = (offset: number, message: string) => ({ ...getPosition(lines, offset), message });

  const syntax = document.errors
    .slice(0, ERRORS_MAX)
    .map((error) => at(error.pos[0], describeSyntaxError(error)));
  if (syntax.length > 0) return { errors: syntax };
  if (document.directives.yaml.explicit === true && document.directives.yaml.version !== "1.2") {
    return { errors: [at(document.range[0], "write YAML 1.2: leave the %YAML directive out")] };
  }
  // The parser warns only about directives and tags, because the check above has refused other versions of YAML.
  const warnings = document.warnings
    .slice(0, ERRORS_MAX)
    .map(({ code, pos }) => at(pos[0], code === "BAD_DIRECTIVE" ? directiveProblem : tagProblem));
  if (warnings.length > 0) return { errors: warnings };

  const tree = readYamlTree(document);
  if (tree.problems.length > 0) {
    return {
      errors: tree.problems.slice(0, ERRORS_MAX).map(({ offset, message }) => at(offset, message)),
    };
  }
  const locate = (path: string) => getPosition(lines, findOffset(tree, path));
  const read = tryValidateManifest(tree.value);
  if ("issues" in read) {
    return { errors: read.issues.map((issue) => locateIssue(issue, locate)) };
  }
  return { manifest: read.manifest, locate, ...locate("") };
}

const directiveProblem = "unknown directive: leave out the line that begins with %";
const tagProblem = 'tags are not supported here; put a text that begins with "!" in quotes';

/**
 * Describes an error of the YAML parser without the quoted text of the document. That text may be a password that lacks
 * quotation marks, and everyone with the scope `read` can see the errors of a spec file.
 */
function describeSyntaxError({ code, message }: YAMLParseError): string {
  if (code === "TAG_RESOLVE_FAILED") return tagProblem;
  if (code === "BAD_DIRECTIVE") return directiveProblem;
  const quoting = /^(Invalid escape sequence|Block scalar header|Not a YAML token|Unexpected .*?:)/;
  const shown = quoting.test(message) ? message.replace(/(sequence|:) .*$/s, "$1") : message;
  return `not valid YAML: ${shown.replace(/:$/, "")}`;
}

/** Converts an issue to a problem with its position in the text and the field in the message. */
export function locateIssue(issue: SpecIssue, locate: (path: string) => Position): ParseProblem {
  return { ...locate(issue.path), message: formatIssue(issue) };
}

/**
 * Returns the offset of a field. Fields below an alias have no position, so the position of the nearest ancestor is
 * used.
 */
function findOffset(tree: YamlTree, path: string): number {
  const segments = parsePointer(path);
  for (let length = segments.length; length >= 0; length -= 1) {
    const offset = tree.offsets.get(formatPointer(segments.slice(0, length)));
    if (offset !== undefined) return offset;
  }
  return 0;
}

function getPosition(lines: LineCounter, offset: number): Position {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

function createFailedFile(problem: ParseProblem): ParsedManifestFile {
  return { documents: [], errors: [problem] };
}

function decode(input: string | Uint8Array): string | ParseProblem {
  const bytes = typeof input === "string" ? Buffer.byteLength(input) : input.byteLength;
  if (bytes > SPEC_FILE_BYTES_MAX) {
    return { line: 1, column: 1, message: "larger than 1 MiB; split it into several files" };
  }
  if (typeof input !== "string" && !isUtf8(input))
    return { ...findFirstInvalidByte(input), message: "not UTF-8 text" };
  // The decoder drops a byte order mark, but a text that was not decoded here may still have one.
  const text =
    typeof input === "string" ? input.replace(/^\uFEFF/, "") : new TextDecoder().decode(input);
  const nul = text.indexOf("\0");
  if (nul === -1) return text;
  const before = text.slice(0, nul).split("\n");
  return {
    line: before.length,
    column: (before.at(-1)?.length ?? 0) + 1,
    message: "contains a NUL character",
  };
}

function findFirstInvalidByte(bytes: Uint8Array): Position {
  let line = 1;
  let start = 0;
  while (start < bytes.length) {
    const newline = bytes.indexOf(10, start);
    const end = newline === -1 ? bytes.length : newline;
    const part = bytes.subarray(start, end);
    if (!isUtf8(part)) {
      return { line, column: Math.max(0, new TextDecoder().decode(part).indexOf("\uFFFD")) + 1 };
    }
    line += 1;
    start = end + 1;
  }
  return { line: 1, column: 1 };
}
