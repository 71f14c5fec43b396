import { BerthError } from "../../base/errors.ts";
import { dockerfileNames } from "../../source-tree/dockerfile-names.ts";
import type { BuildOptions } from "../app-source-spec.ts";
import type { Language } from "../language.ts";
import { createDenoDockerfile, DENO_FILES } from "./deno-recipe.ts";
import { createDotnetDockerfile, listProjectFiles } from "./dotnet-recipe.ts";
import { createElixirDockerfile } from "./elixir-recipe.ts";
import type { GeneratedDockerfile, RecipeOptions } from "./generated-dockerfile.ts";
import { createGoDockerfile } from "./go-recipe.ts";
import { isJavaSource } from "./java-project.ts";
import { createJavaDockerfile } from "./java-recipe.ts";
import { getScript, readNodePackage } from "./node-package.ts";
import { createNodeDockerfile } from "./node-recipe.ts";
import { createPhpDockerfile } from "./php-recipe.ts";
import { readPythonProject } from "./python-project.ts";
import { createPythonDockerfile } from "./python-recipe.ts";
import { listGems } from "./ruby-project.ts";
import { createRubyDockerfile } from "./ruby-recipe.ts";
import { createRustDockerfile } from "./rust-recipe.ts";
import { createShellDockerfile, SHELL_FILE } from "./shell-recipe.ts";
import type { SourceReader } from "./source-reader.ts";
import { createStaticDockerfile, findPagesFolder } from "./static-recipe.ts";
import { undecidedSourceError } from "./undecided-source.ts";

/** The Dockerfile with which a source is built. */
export type ChosenDockerfile =
  | { readonly type: "found"; readonly path: string; readonly text: string }
  | ({
      readonly type: "generated";
      /** The path of the Dockerfile in the build context. */
      readonly path: string;
      readonly language: Language;
    } & GeneratedDockerfile);

const recipes: Readonly<
  Record<Language, (reader: SourceReader, options: RecipeOptions) => Promise<GeneratedDockerfile>>
> = {
  node: createNodeDockerfile,
  python: createPythonDockerfile,
  go: createGoDockerfile,
  php: createPhpDockerfile,
  ruby: createRubyDockerfile,
  java: createJavaDockerfile,
  dotnet: createDotnetDockerfile,
  rust: createRustDockerfile,
  elixir: createElixirDockerfile,
  deno: createDenoDockerfile,
  shell: createShellDockerfile,
  static: createStaticDockerfile,
};

/**
 * Chooses the Dockerfile that the options name. Otherwise, unless the options name a language, chooses the Dockerfile
 * of the source; if there is none, generates one. Throws `not_found` if the named Dockerfile does not exist. Throws
 * `invalid_request`, with the files that were expected, if no Dockerfile can be generated.
 */
export async function chooseDockerfile(
  reader: SourceReader,
  options: Pick<BuildOptions, "dockerfile" | "language" | "baseImage">,
): Promise<ChosenDockerfile> {
  const named = options.dockerfile?.replace(/^(\.\/)+/, "");
  const path = named ?? (options.language === undefined ? findDockerfile(reader) : undefined);
  if (path !== undefined) {
    const text = await reader.read(path);
    if (text !== undefined) return { type: "found", path, text };
    throw new BerthError("not_found", `there is no Dockerfile ${path} in the source`, {
      hint: "correct build.dockerfile, or remove it",
    });
  }
  const language = options.language ?? (await detectLanguage(reader));
  const generated = await recipes[language](reader, options);
  return { type: "generated", path: "Dockerfile", language, ...generated };
}

/** Returns the first of `Dockerfile`, `dockerfile` and `Containerfile` that exists. */
export function findDockerfile(reader: SourceReader): string | undefined {
  return dockerfileNames.find((name) => reader.has(name));
}

/**
 * Detects the language. The first match of this order decides. package.json comes late, because sources of other
 * languages often have one for their pages; such a source is a Node.js program if package.json has a start script and
 * nothing shows a server in the other language.
 */
async function detectLanguage(reader: SourceReader): Promise<Language> {
  if (reader.has("go.mod") || reader.has("go.work")) return "go";
  if (reader.has("Cargo.toml")) return "rust";
  if (reader.has("mix.exs")) return "elixir";
  if (isJavaSource(reader)) return "java";
  const pkg = await readNodePackage(reader);
  const isStarted = pkg !== undefined && getScript(pkg, "start") !== undefined;
  if (await isPhpSource(reader, isStarted)) return "php";
  if (await isRubySource(reader, isStarted)) return "ruby";
  const isDjango = reader.has("manage.py");
  if ((!isStarted || isDjango) && (await readPythonProject(reader)) !== undefined) return "python";
  if (!isStarted && DENO_FILES.some((name) => reader.has(name))) return "deno";
  const hasPages = (await findPagesFolder(reader)) !== undefined;
  // If a package.json neither starts nor builds anything, it only configures tools, and static pages take precedence.
  const isProgram =
    pkg !== undefined &&
    (isStarted || pkg.main !== undefined || getScript(pkg, "build") !== undefined);
  if (pkg !== undefined && (isProgram || !hasPages)) return "node";
  if (hasPages) return "static";
  if (listProjectFiles(reader).length > 0) return "dotnet";
  if (reader.has(SHELL_FILE)) return "shell";
  throw undecidedSourceError(
    `Berth cannot detect how to build this source: ${describeFound(reader)}`,
    `check the folder; Berth builds sources with ${decidingFiles.join(", ")}`,
  );
}

/** The files that decide about a language, for the message about a source that has none of them. */
const decidingFiles = [
  "package.json",
  "requirements.txt",
  "pyproject.toml",
  "go.mod",
  "composer.json",
  "Gemfile",
  "pom.xml",
  "build.gradle",
  "*.csproj",
  "Cargo.toml",
  "mix.exs",
  "deno.json",
  SHELL_FILE,
  "index.html",
];

/** Files of tools for which there is no recipe. */
const unsupportedFiles = [
  "CMakeLists.txt",
  "meson.build",
  "Makefile",
  "gleam.toml",
  "build.sbt",
  "Package.swift",
  "stack.yaml",
  "pubspec.yaml",
  "build.zig",
];
/** The number of names that a message shows. */
const NAMES_MAX = 8;

function describeFound(reader: SourceReader): string {
  const known = unsupportedFiles.filter((name) => reader.has(name));
  if (known.length > 0) return `it has ${known.join(" and ")}, for which there is no recipe`;
  const names = reader.list("");
  if (names.length === 0) return "it contains no files";
  const rest = names.length > NAMES_MAX ? ` and ${names.length - NAMES_MAX} more` : "";
  return `it only contains ${names.slice(0, NAMES_MAX).join(", ")}${rest}`;
}

/** A composer.json in the source of a Node.js program only configures tools, unless there is a page of PHP. */
async function isPhpSource(reader: SourceReader, isNodeStarted: boolean): Promise<boolean> {
  const hasPage = ["", "public/", "web/"].some((folder) => reader.has(`${folder}index.php`));
  return hasPage || (!isNodeStarted && reader.has("composer.json"));
}

/** A Gemfile in a Node.js program only names tools, as in apps for phones, unless it names a server. */
async function isRubySource(reader: SourceReader, isNodeStarted: boolean): Promise<boolean> {
  const gemfile = await reader.read("Gemfile");
  if (gemfile === undefined) return false;
  if (!isNodeStarted || reader.has("config.ru")) return true;
  const gems = listGems(gemfile);
  return ["rails", "sinatra", "rack", "puma", "hanami", "roda"].some((name) => gems.has(name));
}
