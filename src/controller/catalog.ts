import { readdirSync, readFileSync } from "node:fs";
import { join, parse } from "node:path";
import { BerthError, InvalidSpecError, type SpecIssue } from "../base/errors.ts";
import type { Manifest } from "../resources/kinds.ts";
import { type ParsedFile, parseDocuments } from "../resources/parse.ts";

/**
 * Reads the built-in templates: every `*.yaml` file of `folder` holds one Template, named as the
 * file is. In order of their names. Done once, at start: the files come with Berth.
 *
 * Throws InvalidSpecError naming file, line and column of everything that is wrong with any of
 * them; BerthError `internal` when the folder cannot be read.
 */
export function loadCatalog(folder: string): Manifest<"Template">[] {
  const templates: Manifest<"Template">[] = [];
  const issues: SpecIssue[] = [];
  for (const file of templateFiles(folder)) {
    const result = readTemplate(file, parseDocuments(readFileSync(join(folder, file))));
    if (Array.isArray(result)) issues.push(...result);
    else templates.push(result);
  }
  if (issues.length > 0) {
    throw new InvalidSpecError(
      `the template catalog is not valid: ${issues.map((issue) => issue.message).join("; ")}`,
      issues,
    );
  }
  return templates;
}

function templateFiles(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((file) => file.endsWith(".yaml"))
      .toSorted();
  } catch (cause) {
    throw new BerthError("internal", "the folder of the built-in templates cannot be read", {
      hint: "install Berth again: its folder templates/ is missing",
      cause,
    });
  }
}

function readTemplate(file: string, parsed: ParsedFile): Manifest<"Template"> | SpecIssue[] {
  const issue = (place: { line: number; column: number }, message: string): SpecIssue => ({
    path: "",
    line: place.line,
    column: place.column,
    message: `${file}:${place.line}:${place.column}: ${message}`,
  });
  if (parsed.errors.length > 0) return parsed.errors.map((error) => issue(error, error.message));
  const [first, second] = parsed.documents;
  if (!first) return [issue({ line: 1, column: 1 }, "holds no document; expected one Template")];
  if (second) return [issue(second, "a second document; expected one Template a file")];
  const { manifest } = first;
  if (!isTemplate(manifest)) {
    return [issue(first.locate("/kind"), `expected kind Template, found ${manifest.kind}`)];
  }
  const name = parse(file).name;
  return manifest.metadata.name === name
    ? manifest
    : [
        issue(
          first.locate("/metadata/name"),
          `the template of this file has to be named "${name}"`,
        ),
      ];
}

function isTemplate(manifest: Manifest): manifest is Manifest<"Template"> {
  return manifest.kind === "Template";
}
