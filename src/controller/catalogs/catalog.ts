import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, parse } from "node:path";
import { BerthError, InvalidSpecError, type SpecIssue } from "../../base/errors.ts";
import { packageRoot } from "../../base/package-root.ts";
import type { Kind, Manifest } from "../../resources/kinds.ts";
import { type ParsedManifestFile, parseManifests } from "../../resources/parse-manifests.ts";
import { isKind } from "../../resources/resource.ts";

export interface Catalog {
  readonly templates: readonly Manifest<"Template">[];
  readonly models: readonly Manifest<"Model">[];
}

/** The file of the built-in catalog that the build writes (scripts/build.mjs). */
const builtCatalog = join(import.meta.dirname, "catalog.json");

/**
 * Returns the catalog that comes with Berth. The build parses this catalog once, because parsing it at each start would
 * take a quarter of the time of the start. Throws the errors of `loadCatalog`.
 */
export function loadBuiltInCatalog(): Catalog {
  // The file does not exist if Berth runs from its sources, as in tests.
  if (!existsSync(builtCatalog)) return loadCatalog(join(packageRoot, "templates"));
  const catalog: Catalog = JSON.parse(readFileSync(builtCatalog, "utf8"));
  return catalog;
}

/**
 * Reads a catalog, sorted by name. Every `*.yaml` file in `folder` contains exactly one Template. Every `*.yaml` file
 * in its optional subfolder `models` contains exactly one Model. A resource has the name of its file. The catalog is
 * read only when Berth starts, because its files come with Berth or from an administrator.
 *
 * Throws InvalidSpecError with file, line and column of every mistake, and BerthError `internal` if the folder cannot
 * be read.
 */
export function loadCatalog(folder: string): Catalog {
  const issues: SpecIssue[] = [];
  const templates = loadManifests(folder, "", "Template", issues);
  const hasModels = existsSync(join(folder, "models"));
  const models = hasModels ? loadManifests(folder, "models", "Model", issues) : [];
  if (issues.length > 0) {
    throw new InvalidSpecError(
      `the template catalog is not valid: ${issues.map((issue) => issue.message).join("; ")}`,
      issues,
    );
  }
  return { templates, models };
}

/**
 * Reads the manifests in a folder. Messages name files by their paths below `folder`, because the path of `folder`
 * itself does not help a reader.
 */
function loadManifests<K extends Kind>(
  folder: string,
  subfolder: string,
  kind: K,
  issues: SpecIssue[],
): Manifest<K>[] {
  const manifests: Manifest<K>[] = [];
  for (const name of listYamlFiles(join(folder, subfolder))) {
    const file = subfolder === "" ? name : `${subfolder}/${name}`;
    const result = readEntry(file, kind, parseManifests(readFileSync(join(folder, file))));
    if (Array.isArray(result)) issues.push(...result);
    else manifests.push(result);
  }
  return manifests;
}

function listYamlFiles(folder: string): string[] {
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

function readEntry<K extends Kind>(
  file: string,
  kind: K,
  parsed: ParsedManifestFile,
): Manifest<K> | SpecIssue[] {
  const issue = (place: { line: number; column: number }, message: string): SpecIssue => ({
    path: "",
    line: place.line,
    column: place.column,
    message: `${file}:${place.line}:${place.column}: ${message}`,
  });
  if (parsed.errors.length > 0) return parsed.errors.map((error) => issue(error, error.message));
  const [first, second] = parsed.documents;
  if (!first)
    return [issue({ line: 1, column: 1 }, `the file contains no document; expected one ${kind}`)];
  if (second) return [issue(second, `this is a second document; expected one ${kind} per file`)];
  const { manifest } = first;
  if (!isKind(manifest, kind)) {
    return [issue(first.locate("/kind"), `expected kind ${kind}, found ${manifest.kind}`)];
  }
  const { name } = parse(file);
  return manifest.metadata.name === name
    ? manifest
    : [
        issue(
          first.locate("/metadata/name"),
          `the ${kind.toLowerCase()} of this file has to be named "${name}"`,
        ),
      ];
}
