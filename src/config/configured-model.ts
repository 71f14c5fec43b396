import { type Stats, statSync } from "node:fs";
import { basename, resolve } from "node:path";
import { ConfigError } from "./config-error.ts";

/** A model named with --model. `path` is undefined if the value is the id of a model in the models folder. */
export interface ConfiguredModel {
  readonly id: string;
  readonly path: string | undefined;
}

const MODEL_FILE_HINT =
  "name a GGUF file with --model FILE.gguf; relative paths are resolved against the working directory";

/**
 * Parses `[ID=]FILE`, or the id of a model in the models folder. Throws ConfigError if the named file does not exist.
 */
export function parseConfiguredModel(text: string, workingDirectory: string): ConfiguredModel {
  const split = /^(?<id>[^=/]+(\/[^=/]+)*)=(?<file>.+)$/.exec(text)?.groups;
  const file = split?.["file"] ?? text;
  const path = resolve(workingDirectory, file);
  const facts = statIfReadable(path);
  if (file === text && !facts?.isFile() && !looksLikeFile(text)) {
    if (text === "") throw new ConfigError("--model is empty", MODEL_FILE_HINT);
    return { id: text, path: undefined };
  }
  if (facts?.isDirectory())
    throw new ConfigError(
      `${file} is a folder, not a model file`,
      "name a GGUF file in it; models in DATA_DIR/models are found without this flag",
    );
  if (!facts?.isFile()) throw new ConfigError(`there is no model file ${file}`, MODEL_FILE_HINT);
  return { id: split?.["id"] ?? basename(file).replace(/\.gguf$/i, ""), path };
}

/**
 * Returns true for a text that looks like a path. Any other text is the id of a model in the models folder, unless a
 * file with that name exists.
 */
function looksLikeFile(text: string): boolean {
  return /\.gguf$/i.test(text) || /^(\.{0,2}|~)\//.test(text);
}

/** Returns the file's stats; undefined also if a parent of the path is not a folder or may not be read. */
function statIfReadable(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}
