import { parse } from "smol-toml";
import { BerthError, messageOf } from "../../base/errors.ts";
import { type Fields, fieldsIn, textIn, textsIn } from "./fields.ts";
import type { SourceReader } from "./reader.ts";

export interface PythonProject {
  readonly manager: "pip" | "uv" | "poetry";
  /** Files that an install reads. */
  readonly manifests: readonly string[];
  /** Installs without the project itself, where the manager can tell them apart. */
  readonly isPackage: boolean;
  /** Names in lower case, with hyphens. */
  readonly packages: ReadonlySet<string>;
  /** Minor version of Python 3. */
  readonly minor: number;
  readonly from: readonly string[];
}

/** Releases of Python 3, the preferred one first. */
const MINORS = [13, 12, 14, 11, 10, 9];

/** Undefined where nothing says that the source is one of Python. A pyproject.toml for tools alone does not. */
export async function readPythonProject(reader: SourceReader): Promise<PythonProject | undefined> {
  const requirements = await reader.read("requirements.txt");
  const toml = await reader.read("pyproject.toml");
  const project = toml === undefined ? {} : parseToml(toml);
  const metadata = fieldsIn(project, "project");
  const poetry = fieldsIn(fieldsIn(project, "tool"), "poetry");
  const isProject = "project" in project || Object.keys(poetry).length > 0;
  if (requirements === undefined && !isProject) return undefined;
  const poetryPackages = fieldsIn(poetry, "dependencies");
  const packages = new Set(
    [
      ...(requirements ?? "").split("\n"),
      ...textsIn(metadata, "dependencies"),
      ...Object.keys(poetryPackages),
    ]
      .map(packageName)
      .filter((name) => name !== undefined),
  );
  const version = await pythonMinor(reader, [
    textIn(metadata, "requires-python"),
    textIn(poetryPackages, "python"),
  ]);
  const rest = { packages, minor: version.minor };
  const uses = (files: readonly string[]) => files.filter((file) => reader.has(file));
  const isPackage = "build-system" in project;
  if (isProject && reader.has("uv.lock")) {
    const manifests = ["pyproject.toml", "uv.lock"];
    return { ...rest, manager: "uv", manifests, isPackage, from: [...manifests, ...version.from] };
  }
  if (isProject && (reader.has("poetry.lock") || Object.keys(poetry).length > 0)) {
    const manifests = uses(["pyproject.toml", "poetry.lock"]);
    return {
      ...rest,
      manager: "poetry",
      manifests,
      isPackage,
      from: [...manifests, ...version.from],
    };
  }
  const manifests = requirements === undefined ? ["pyproject.toml"] : ["requirements.txt"];
  return {
    ...rest,
    manager: "pip",
    manifests,
    isPackage: requirements === undefined,
    from: [...manifests, ...version.from],
  };
}

function parseToml(text: string): Fields {
  try {
    return parse(text);
  } catch (error) {
    const [why = ""] = messageOf(error).split("\n");
    throw new BerthError("invalid_request", `pyproject.toml cannot be read: ${why}`, {
      cause: error,
    });
  }
}

/** `Flask-Login[extra]>=1.0 ; python_version > "3"` is flask-login. */
function packageName(requirement: string): string | undefined {
  const name = /^\s*([A-Za-z0-9][\w.-]*)/.exec(requirement)?.[1];
  return name?.toLowerCase().replaceAll(/[._]/g, "-");
}

async function pythonMinor(
  reader: SourceReader,
  ranges: readonly (string | undefined)[],
): Promise<{ minor: number; from: readonly string[] }> {
  for (const file of [".python-version", "runtime.txt"]) {
    const named = /^(?:python-)?3\.(\d+)/.exec((await reader.read(file))?.trim() ?? "")?.[1];
    if (named !== undefined) return { minor: Number(named), from: [file] };
  }
  const range = ranges.find((it) => it !== undefined);
  const minor = MINORS.find((candidate) => range === undefined || isIn(candidate, range));
  return { minor: minor ?? MINORS[0] ?? 13, from: [] };
}

/** Whether some 3.`minor` is in a range such as `>=3.10,<3.13`, `^3.11`, `~=3.11` or `3.12.*`. */
function isIn(minor: number, range: string): boolean {
  return range.split(",").every((part) => {
    const match = /^\s*(>=|<=|>|<|==|!=|~=|\^|~)?\s*(\d+)(?:\.(\d+))?(\.[\d*]+)?/.exec(part);
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
