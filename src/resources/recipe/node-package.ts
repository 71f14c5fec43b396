import { intersects, minVersion, validRange } from "semver";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { getFields, getText, isParsedFields, type ParsedFields } from "./parsed-fields.ts";
import type { SourceReader } from "./source-reader.ts";

/** The fields of a package.json that matter for building. */
export interface NodePackage {
  readonly scripts: ParsedFields;
  readonly main: string | undefined;
  readonly dependencies: ParsedFields;
  readonly devDependencies: ParsedFields;
  readonly optionalDependencies: ParsedFields;
  readonly packageManager: string | undefined;
  readonly engine: string | undefined;
  readonly hasWorkspaces: boolean;
}

/** Long-term releases of Node, in order of preference. */
const NODE_MAJORS = [24, 22, 26, 20, 18];

export async function readNodePackage(reader: SourceReader): Promise<NodePackage | undefined> {
  const text = await reader.read("package.json");
  if (text === undefined) return undefined;
  const parsed = parsePackageJson(text);
  return {
    scripts: getFields(parsed, "scripts"),
    main: getText(parsed, "main"),
    dependencies: getFields(parsed, "dependencies"),
    devDependencies: getFields(parsed, "devDependencies"),
    optionalDependencies: getFields(parsed, "optionalDependencies"),
    packageManager: getText(parsed, "packageManager"),
    engine: getText(getFields(parsed, "engines"), "node"),
    hasWorkspaces: "workspaces" in parsed || reader.has("pnpm-workspace.yaml"),
  };
}

function parsePackageJson(text: string): ParsedFields {
  let why = "the file is not a JSON object";
  try {
    const parsed: unknown = JSON.parse(text.replace(/^\u{feff}/u, ""));
    if (isParsedFields(parsed)) return parsed;
  } catch (error) {
    why = getErrorMessage(error);
  }
  throw new BerthError("invalid_request", `package.json cannot be read: ${why}`);
}

/** Returns the script with this name; undefined if it does not exist or is empty. */
export function getScript(pkg: NodePackage, name: string): string | undefined {
  const line = getText(pkg.scripts, name)?.trim();
  return line === "" ? undefined : line;
}

/**
 * Chooses a major version of Node. The range comes from `engines.node`, .nvmrc or .node-version. Returns the first of
 * NODE_MAJORS that is in the range. If none is in it, returns the lowest version of the range.
 */
export async function chooseNodeMajor(
  reader: SourceReader,
  pkg: NodePackage,
): Promise<{ major: number; from: string | undefined }> {
  const asked: readonly (readonly [string, string | undefined])[] = [
    ["package.json", pkg.engine],
    [".nvmrc", await reader.read(".nvmrc")],
    [".node-version", await reader.read(".node-version")],
  ];
  for (const [from, written] of asked) {
    const range = written === undefined ? null : validRange(written.trim());
    if (range === null || range === "*") continue;
    const major =
      NODE_MAJORS.find((candidate) => intersects(`${candidate}.x`, range)) ??
      minVersion(range)?.major;
    if (major !== undefined) return { major, from };
  }
  return { major: NODE_MAJORS[0] ?? 24, from: undefined };
}
