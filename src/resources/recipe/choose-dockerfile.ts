import { BerthError } from "../../base/errors.ts";
import { dockerfileNames } from "../../source-tree/dockerfile-names.ts";
import type { BuildOptions } from "../app-source-spec.ts";
import type { GeneratedDockerfile, RecipeOptions } from "./generated-dockerfile.ts";
import { createGoDockerfile } from "./go-recipe.ts";
import { getScript, readNodePackage } from "./node-package.ts";
import { createNodeDockerfile } from "./node-recipe.ts";
import { readPythonProject } from "./python-project.ts";
import { createPythonDockerfile } from "./python-recipe.ts";
import type { SourceReader } from "./source-reader.ts";
import { createStaticDockerfile, findPagesFolder } from "./static-recipe.ts";
import { undecidedSourceError } from "./undecided-source.ts";

export type Language = NonNullable<BuildOptions["language"]>;

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
  Record<
    Language,
    (
      reader: SourceReader,
      options: RecipeOptions,
    ) => GeneratedDockerfile | Promise<GeneratedDockerfile>
  >
> = {
  node: createNodeDockerfile,
  python: createPythonDockerfile,
  go: createGoDockerfile,
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
 * Detects the language. Checks package.json late, because sources of other languages often have one for their pages.
 */
async function detectLanguage(reader: SourceReader): Promise<Language> {
  if (reader.has("go.mod")) return "go";
  const pkg = await readNodePackage(reader);
  const isStarted = pkg !== undefined && getScript(pkg, "start") !== undefined;
  const isDjango = reader.has("manage.py");
  if ((!isStarted || isDjango) && (await readPythonProject(reader)) !== undefined) return "python";
  const hasPages = findPagesFolder(reader) !== undefined;
  // If a package.json neither starts nor builds anything, it only configures tools, and static pages take precedence.
  const isProgram =
    pkg !== undefined &&
    (isStarted || pkg.main !== undefined || getScript(pkg, "build") !== undefined);
  if (pkg !== undefined && (isProgram || !hasPages)) return "node";
  if (hasPages) return "static";
  throw undecidedSourceError(
    "Berth cannot detect how to build this source: it has no Dockerfile, go.mod, requirements.txt, pyproject.toml with a project, package.json or index.html",
    "check the folder; set build.language to node, python, go or static",
  );
}
