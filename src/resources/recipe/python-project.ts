import { parse } from "smol-toml";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { getFields, getText, getTexts, type ParsedFields } from "./parsed-fields.ts";
import type { SourceReader } from "./source-reader.ts";

export interface PythonProject {
  readonly manager: "pip" | "uv" | "poetry";
  /** Files that an install reads. */
  readonly manifests: readonly string[];
  /** True if the project itself is installed as a package. */
  readonly isPackage: boolean;
  /** The names of required packages in lower case, with hyphens. */
  readonly packages: ReadonlySet<string>;
  /** The minor version of Python 3. */
  readonly minor: number;
  readonly decidingFiles: readonly string[];
}

/** Releases of Python 3, in order of preference. */
const PYTHON_MINORS = [13, 12, 14, 11, 10, 9];

/**
 * Reads the Python project of a source; undefined if there is none. A pyproject.toml that only configures tools does
 * not count.
 */
export async function readPythonProject(reader: SourceReader): Promise<PythonProject | undefined> {
  const requirements = await reader.read("requirements.txt");
  const toml = await reader.read("pyproject.toml");
  const project = toml === undefined ? {} : parseToml(toml);
  const metadata = getFields(project, "project");
  const poetry = getFields(getFields(project, "tool"), "poetry");
  const isProject = "project" in project || Object.keys(poetry).length > 0;
  if (requirements === undefined && !isProject) return undefined;
  const poetryPackages = getFields(poetry, "dependencies");
  const packages = new Set(
    [
      ...(requirements ?? "").split("\n"),
      ...getTexts(metadata, "dependencies"),
      ...Object.keys(poetryPackages),
    ]
      .map(parsePackageName)
      .filter((name) => name !== undefined),
  );
  const version = await choosePythonMinor(reader, [
    getText(metadata, "requires-python"),
    getText(poetryPackages, "python"),
  ]);
  const describe = (
    manager: PythonProject["manager"],
    manifests: readonly string[],
    isPackage: boolean,
  ) => ({
    manager,
    manifests,
    isPackage,
    packages,
    minor: version.minor,
    decidingFiles: [...manifests, ...version.from],
  });
  const hasBuildSystem = "build-system" in project;
  if (isProject && reader.has("uv.lock"))
    return describe("uv", ["pyproject.toml", "uv.lock"], hasBuildSystem);
  if (isProject && (reader.has("poetry.lock") || Object.keys(poetry).length > 0)) {
    const manifests = ["pyproject.toml", "poetry.lock"].filter((file) => reader.has(file));
    return describe("poetry", manifests, hasBuildSystem);
  }
  return requirements === undefined
    ? describe("pip", ["pyproject.toml"], true)
    : describe("pip", ["requirements.txt"], false);
}

function parseToml(text: string): ParsedFields {
  try {
    return parse(text);
  } catch (error) {
    const [why = ""] = getErrorMessage(error).split("\n");
    throw new BerthError("invalid_request", `pyproject.toml cannot be read: ${why}`, {
      cause: error,
    });
  }
}

/** Parses the name in a requirement: `Flask-Login[extra]>=1.0 ; python_version > "3"` gives flask-login. */
function parsePackageName(requirement: string): string | undefined {
  const name = /^\s*([A-Za-z0-9][\w.-]*)/.exec(requirement)?.[1];
  return name?.toLowerCase().replaceAll(/[._]/g, "-");
}

async function choosePythonMinor(
  reader: SourceReader,
  ranges: readonly (string | undefined)[],
): Promise<{ minor: number; from: readonly string[] }> {
  for (const file of [".python-version", "runtime.txt"]) {
    const named = /^(?:python-)?3\.(\d+)/.exec((await reader.read(file))?.trim() ?? "")?.[1];
    if (named !== undefined) return { minor: Number(named), from: [file] };
  }
  const range = ranges.find((it) => it !== undefined);
  const minor = PYTHON_MINORS.find(
    (candidate) => range === undefined || isInRange(candidate, range),
  );
  return { minor: minor ?? PYTHON_MINORS[0] ?? 13, from: [] };
}

/** Returns true if a release of 3.`minor` is in a range such as `>=3.10,<3.13`, `^3.11`, `~=3.11` or `3.12.*`. */
function isInRange(minor: number, range: string): boolean {
  return range.split(",").every((part) => {
    const match = /^(>=|<=|>|<|==|!=|~=|\^|~)?\s*(\d+)(?:\.(\d+))?(\.[\d*]+)?/.exec(part.trim());
    if (match === null) return true;
    const [, operator = "==", major = "3", written, patch] = match;
    if (major !== "3") return operator === "<" || operator === "<=" || operator === "!=";
    if (written === undefined) return operator !== "<";
    const limit = Number(written);
    if (operator === ">=" || operator === "^") return minor >= limit;
    if (operator === ">") return minor > limit || (patch !== undefined && minor === limit);
    if (operator === "<=") return minor <= limit;
    if (operator === "<") return minor < limit || (/^\.[1-9]/.test(patch ?? "") && minor === limit);
    if (operator === "!=") return patch !== undefined && patch !== ".*" ? true : minor !== limit;
    if (operator === "~=") return patch === undefined ? minor >= limit : minor === limit;
    return minor === limit;
  });
}
