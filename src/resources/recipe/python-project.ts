import { posix } from "node:path";
import { getFields, getText, getTexts } from "./parsed-fields.ts";
import type { SourceReader } from "./source-reader.ts";
import { findToolVersion, parseToml } from "./tool-version.ts";

export interface PythonProject {
  readonly manager: "pip" | "uv" | "poetry" | "pdm" | "pipenv" | "none";
  /** Files that an install reads. */
  readonly manifests: readonly string[];
  /** True if the install reads the whole source: the project itself is a package, or it has members. */
  readonly needsSource: boolean;
  /** The file with the requirements for pip. */
  readonly requirements: string;
  /** The names of required packages in lower case, with hyphens. */
  readonly packages: ReadonlySet<string>;
  /** The requirements as they are written, such as `psycopg[binary]>=3`. */
  readonly written: readonly string[];
  /** The name of the only program in `[project.scripts]`; undefined otherwise. */
  readonly script: string | undefined;
  /** The version of Python 3: `3.13`, or `3.13.2` if the source asks for that. */
  readonly version: string;
  readonly decidingFiles: readonly string[];
}

/** Releases of Python 3, in order of preference. */
const PYTHON_MINORS = [13, 12, 14, 11, 10, 9];
const LATEST_MINOR = 14;
/** Files with the requirements of production for pip, in order of preference. */
const REQUIREMENTS_FILES = [
  "requirements.txt",
  "requirements/production.txt",
  "requirements/prod.txt",
  "requirements/base.txt",
  "requirements/requirements.txt",
];
/** Programs that need no packages. */
const PROGRAM_FILES = ["main.py", "app.py", "server.py", "bot.py"];

/**
 * Reads the Python project of a source; undefined if there is none. A pyproject.toml that only configures tools does
 * not count.
 */
export async function readPythonProject(reader: SourceReader): Promise<PythonProject | undefined> {
  const requirements = REQUIREMENTS_FILES.find((file) => reader.has(file));
  const toml = await reader.read("pyproject.toml");
  const project = toml === undefined ? {} : parseToml(toml, "pyproject.toml");
  const metadata = getFields(project, "project");
  const tools = getFields(project, "tool");
  const poetry = getFields(tools, "poetry");
  const isProject = "project" in project || Object.keys(poetry).length > 0;
  const pipfile = await reader.read("Pipfile");
  const pipenv = pipfile === undefined ? {} : parseToml(pipfile, "Pipfile");
  // A file such as app.py may be a tool of a source that is something else.
  const isProgram =
    PROGRAM_FILES.some((file) => reader.has(file)) &&
    !["package.json", "index.html", "deno.json", "deno.jsonc"].some((file) => reader.has(file));
  if (requirements === undefined && !isProject && pipfile === undefined && !isProgram)
    return undefined;
  const poetryPackages = getFields(poetry, "dependencies");
  const required =
    requirements === undefined ? undefined : await readRequirements(reader, requirements);
  const written = [
    ...(required?.lines ?? []),
    ...getTexts(metadata, "dependencies"),
    ...Object.keys(poetryPackages),
    ...Object.keys(getFields(pipenv, "packages")),
  ];
  const packages = new Set(written.map(parsePackageName).filter((name) => name !== undefined));
  const version = await choosePythonVersion(
    reader,
    getText(getFields(pipenv, "requires"), "python_full_version") ??
      getText(getFields(pipenv, "requires"), "python_version"),
    getText(metadata, "requires-python") ?? getText(poetryPackages, "python"),
  );
  const [script, ...otherScripts] = Object.keys(getFields(metadata, "scripts"));
  const describe = (
    manager: PythonProject["manager"],
    manifests: readonly string[],
    needsSource: boolean,
  ): PythonProject => ({
    manager,
    manifests,
    needsSource,
    requirements: requirements ?? "requirements.txt",
    packages,
    written,
    script: otherScripts.length === 0 ? script : undefined,
    version: version.version,
    decidingFiles: [...manifests, ...version.from],
  });
  const present = (...files: readonly string[]) => files.filter((file) => reader.has(file));
  const isPackage = "build-system" in project;
  const isWorkspace = "workspace" in getFields(tools, "uv");
  if (isProject && reader.has("uv.lock"))
    return describe("uv", ["pyproject.toml", "uv.lock"], isPackage || isWorkspace);
  if (isProject && reader.has("pdm.lock"))
    return describe("pdm", ["pyproject.toml", "pdm.lock"], isPackage);
  if (isProject && (reader.has("poetry.lock") || Object.keys(poetry).length > 0))
    return describe("poetry", present("pyproject.toml", "poetry.lock"), isPackage);
  if (pipfile !== undefined) return describe("pipenv", present("Pipfile", "Pipfile.lock"), false);
  if (required !== undefined) return describe("pip", required.files, required.needsSource);
  if (isProject) return describe("pip", ["pyproject.toml"], true);
  return describe("none", present(...PROGRAM_FILES).slice(0, 1), false);
}

/**
 * Reads a file of requirements, and the files that it names with `-r` or `-c`. An entry that is a folder of the source
 * needs the whole source.
 */
async function readRequirements(
  reader: SourceReader,
  first: string,
): Promise<{
  readonly files: readonly string[];
  readonly lines: readonly string[];
  readonly needsSource: boolean;
}> {
  const files = [first];
  const lines: string[] = [];
  for (const file of files) {
    const folder = posix.dirname(file);
    for (const line of ((await reader.read(file)) ?? "").split("\n")) {
      const named = /^\s*(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)/.exec(line)?.[1];
      if (named === undefined) {
        lines.push(line);
        continue;
      }
      const path = posix.normalize(posix.join(folder, named));
      if (reader.has(path) && !files.includes(path)) files.push(path);
    }
  }
  return {
    files,
    lines,
    needsSource: lines.some((line) => /^\s*(-e\s+)?\.\.?(\/|\[|$)/.test(line)),
  };
}

/** Parses the name in a requirement: `Flask-Login[extra]>=1.0 ; python_version > "3"` gives flask-login. */
function parsePackageName(requirement: string): string | undefined {
  const name = /^\s*([A-Za-z0-9][\w.-]*)/.exec(requirement)?.[1];
  return name?.toLowerCase().replaceAll(/[._]/g, "-");
}

async function choosePythonVersion(
  reader: SourceReader,
  pipenv: string | undefined,
  range: string | undefined,
): Promise<{ readonly version: string; readonly from: readonly string[] }> {
  const tool = await findToolVersion(reader, ["python"], [".python-version", "runtime.txt"]);
  const asked = tool ?? (pipenv === undefined ? undefined : { version: pipenv, from: "Pipfile" });
  if (asked?.version === "latest") return { version: `3.${LATEST_MINOR}`, from: [asked.from] };
  const named = /^(?:python-|cpython-)?(3\.\d+(?:\.\d+)?)/.exec(asked?.version ?? "")?.[1];
  if (asked !== undefined && named !== undefined)
    return { version: named, from: asked.from === "Pipfile" ? [] : [asked.from] };
  const minor = PYTHON_MINORS.find(
    (candidate) => range === undefined || isInRange(candidate, range),
  );
  return { version: `3.${minor ?? PYTHON_MINORS[0] ?? 13}`, from: [] };
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
