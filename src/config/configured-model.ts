import { type Stats, statSync } from "node:fs";
import { basename, resolve } from "node:path";
import { ConfigError } from "./config-error.ts";

/** A model named with --model. `path` is undefined for the id of a model in the models folder. */
export interface ConfiguredModel {
  readonly id: string;
  readonly path: string | undefined;
}

const MODEL_FILE_HINT =
  "name a GGUF file with --model FILE.gguf; the path counts from the working directory";

/** Parses `[ID=]FILE`, or the id of a model in the models folder. Throws ConfigError if there is no such file. */
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
      `${file} is a folder, and a model is a file`,
      "name a GGUF file in it; what DATA_DIR/models has in it is found without being named",
    );
  if (!facts?.isFile()) throw new ConfigError(`there is no model file ${file}`, MODEL_FILE_HINT);
  return { id: split?.["id"] ?? basename(file).replace(/\.gguf$/i, ""), path };
}

/** A text that does not look like a file is the id of a model in the models folder if no such file exists. */
function looksLikeFile(text: string): boolean {
  return /\.gguf$/i.test(text) || /^(\.{0,2}|~)\//.test(text);
}

/** Returns undefined also if a parent of the path is not a folder, or may not be read. */
function statIfReadable(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}
