import { intersects, minVersion, validRange } from "semver";
import { BerthError, messageOf } from "../../base/errors.ts";
import { type Fields, fieldsIn, isFields, textIn } from "./fields.ts";
import type { SourceReader } from "./reader.ts";

/** What a package.json says, as far as building goes. */
export interface NodePackage {
  readonly scripts: Fields;
  readonly main: string | undefined;
  readonly dependencies: Fields;
  readonly devDependencies: Fields;
  readonly optionalDependencies: Fields;
  readonly packageManager: string | undefined;
  readonly engine: string | undefined;
  readonly hasWorkspaces: boolean;
}

/** Long-term releases of Node, the preferred one first. */
const MAJORS = [24, 22, 26, 20, 18];

export async function readNodePackage(reader: SourceReader): Promise<NodePackage | undefined> {
  const text = await reader.read("package.json");
  if (text === undefined) return undefined;
  const parsed = parseJson(text);
  return {
    scripts: fieldsIn(parsed, "scripts"),
    main: textIn(parsed, "main"),
    dependencies: fieldsIn(parsed, "dependencies"),
    devDependencies: fieldsIn(parsed, "devDependencies"),
    optionalDependencies: fieldsIn(parsed, "optionalDependencies"),
    packageManager: textIn(parsed, "packageManager"),
    engine: textIn(fieldsIn(parsed, "engines"), "node"),
    hasWorkspaces: "workspaces" in parsed || reader.has("pnpm-workspace.yaml"),
  };
}

function parseJson(text: string): Fields {
  let why = "it is no JSON object";
  try {
    const parsed: unknown = JSON.parse(text.replace(/^\u{feff}/u, ""));
    if (isFields(parsed)) return parsed;
  } catch (error) {
    why = messageOf(error);
  }
  throw new BerthError("invalid_request", `package.json cannot be read: ${why}`);
}

/** A script that is written and not empty. */
export function scriptOf(pkg: NodePackage, name: string): string | undefined {
  const line = textIn(pkg.scripts, name)?.trim();
  return line === "" ? undefined : line;
}

/** The first of MAJORS that `engines.node`, .nvmrc or .node-version takes, or what they name. */
export async function nodeMajor(
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
      MAJORS.find((candidate) => intersects(`${candidate}.x`, range)) ?? minVersion(range)?.major;
    if (major !== undefined) return { major, from };
  }
  return { major: MAJORS[0] ?? 24, from: undefined };
}
