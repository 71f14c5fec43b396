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
  /** The versions in `engines`, such as `node` and `pnpm`. */
  readonly engines: ParsedFields;
  /** The version of Node.js for the tool Volta. */
  readonly volta: string | undefined;
  readonly hasWorkspaces: boolean;
}

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
    engines: getFields(parsed, "engines"),
    volta: getText(getFields(parsed, "volta"), "node"),
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
