import { parse } from "smol-toml";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { getFields, isParsedFields, type ParsedFields } from "./parsed-fields.ts";
import type { SourceReader } from "./source-reader.ts";

export interface ToolVersion {
  /** The version as it is written, without a leading `v`: `3.2.1`, `21` or `latest`. */
  readonly version: string;
  /** The file that names the version. */
  readonly from: string;
}

/** Files of the version managers mise and asdf, in order of precedence. */
const MISE_FILES = ["mise.toml", ".mise.toml"];
const ASDF_FILE = ".tool-versions";

/**
 * Finds the version of a tool that a source asks for. Reads first `ownFiles`, which contain only a version, such as
 * `.ruby-version`, and then mise.toml and .tool-versions, in which the tool has one of `names`. Comments count nowhere.
 */
export async function findToolVersion(
  reader: SourceReader,
  names: readonly string[],
  ownFiles: readonly string[] = [],
): Promise<ToolVersion | undefined> {
  for (const from of ownFiles) {
    const line = firstLine((await reader.read(from)) ?? "");
    if (line !== undefined) return { version: strip(line), from };
  }
  for (const from of MISE_FILES) {
    const text = await reader.read(from);
    if (text === undefined) continue;
    const tools = getFields(parseToml(text, from), "tools");
    for (const name of names) {
      const version = readMiseVersion(tools[name]);
      if (version !== undefined) return { version: strip(version), from };
    }
  }
  for (const line of ((await reader.read(ASDF_FILE)) ?? "").split("\n")) {
    const [name = "", version] = line.replace(/#.*/, "").trim().split(/\s+/);
    if (version !== undefined && names.includes(name))
      return { version: strip(version), from: ASDF_FILE };
  }
  return undefined;
}

/** Parses a TOML file of the source. Throws `invalid_request` with the name of the file. */
export function parseToml(text: string, file: string): ParsedFields {
  try {
    return parse(text);
  } catch (error) {
    const [why = ""] = getErrorMessage(error).split("\n");
    throw new BerthError("invalid_request", `${file} cannot be read: ${why}`, { cause: error });
  }
}

/** Reads the value of a tool in mise.toml: a version, a list of versions, or a table with `version`. */
function readMiseVersion(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return readMiseVersion(value[0]);
  return isParsedFields(value) ? readMiseVersion(value["version"]) : undefined;
}

function firstLine(text: string): string | undefined {
  return text
    .split("\n")
    .map((line) => line.replace(/#.*/, "").trim())
    .find((line) => line !== "");
}

function strip(version: string): string {
  return version.replace(/^v(?=\d)/, "");
}
