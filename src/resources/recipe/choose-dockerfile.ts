import { BerthError } from "../../base/errors.ts";
import { dockerfileNames } from "../../source-tree/dockerfile-names.ts";
import type { BuildOptions } from "../app-spec.ts";
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

/** What a source is built with. */
export type ChosenDockerfile =
  | { readonly type: "found"; readonly path: string; readonly text: string }
  | ({
      readonly type: "generated";
      /** Where it goes in the build context. */
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
 * The Dockerfile that the options name; else, unless they name a language, the one that is there; else
 * a generated one. Throws `not_found` for one that is named and not there, and `invalid_request` where
 * none can be generated, saying what was looked for.
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
      hint: "correct build.dockerfile, or leave it out",
    });
  }
  const language = options.language ?? (await detectLanguage(reader));
  const generated = await recipes[language](reader, options);
  return { type: "generated", path: "Dockerfile", language, ...generated };
}

/** The first of `Dockerfile`, `dockerfile` and `Containerfile` that is there. */
export function findDockerfile(reader: SourceReader): string | undefined {
  return dockerfileNames.find((name) => reader.has(name));
}


/** A package.json often stands beside the code of another language, for its pages: it decides late. */
async function detectLanguage(reader: SourceReader): Promise<Language> {
  if (reader.has("go.mod")) return "go";
  const pkg = await readNodePackage(reader);
  const isStarted = pkg !== undefined && getScript(pkg, "start") !== undefined;
  const isDjango = reader.has("manage.py");
  if ((!isStarted || isDjango) && (await readPythonProject(reader)) !== undefined) return "python";
  const hasPages = findPagesFolder(reader) !== undefined;
  // Where nothing is started or built, the package.json is for tools such as a formatter.
  const isProgram =
    pkg !== undefined &&
    (isStarted || pkg.main !== undefined || getScript(pkg, "build") !== undefined);
  if (pkg !== undefined && (isProgram || !hasPages)) return "node";
  if (hasPages) return "static";
  throw undecidedSourceError(
    "Berth does not see how to build this source: it has no Dockerfile, go.mod, requirements.txt, pyproject.toml with a project, package.json or index.html",
    "check that it is the right folder; set build.language to node, python, go or static",
  );
}
