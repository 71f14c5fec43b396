import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { BerthError, getErrorMessage } from "../base/errors.ts";
import type { AppSpec, EnvValue } from "../resources/app-spec.ts";
import type { Cli } from "./cli.ts";
import { UsageError } from "./cli-errors.ts";
import { readAll } from "./read-input.ts";

/**
 * The maximum size of a value from standard input. It is far above the maximum of a Secret's value, which the server
 * checks.
 */
const VALUE_BYTES_MAX = 8 * 1024 * 1024;

/** Splits `key=value` at its first equals sign. Throws UsageError if no key precedes an equals sign. */
export function splitPair(text: string, example: string): [key: string, value: string] {
  const at = text.indexOf("=");
  if (at < 1) throw new UsageError(`"${text}" is not KEY=VALUE`, `write it as ${example}`);
  return [text.slice(0, at), text.slice(at + 1)];
}

export function pairsToObject(texts: readonly string[], example: string): Record<string, string> {
  return Object.fromEntries(texts.map((text) => splitPair(text, example)));
}

/** Parses variables: `NAME=value`, or `NAME=secret:SECRET/KEY` for a value of a Secret. */
export function parseVariables(texts: readonly string[]): NonNullable<AppSpec["env"]> {
  return Object.fromEntries(texts.map((text) => parseVariable(text)));
}

function parseVariable(text: string): [string, EnvValue] {
  const [name, value] = splitPair(text, "-e NAME=value");
  const match = /^secret:([^/]+)(?:\/(.+))?$/.exec(value);
  if (match?.[1] === undefined) return [name, value];
  return [
    name,
    match[2] === undefined ? { secret: match[1] } : { secret: match[1], key: match[2] },
  ];
}

/**
 * Parses pairs as `pairsToObject` does, but `key=@file` reads a file unchanged and `key=-` reads standard input without
 * its last line break. With both forms, the value does not appear in the shell's history or in a list of processes.
 */
export async function readPairs(
  cli: Cli,
  texts: readonly string[],
): Promise<Record<string, string>> {
  const data: Record<string, string> = {};
  for (const pair of texts) {
    const [key, value] = splitPair(pair, "key=value, key=@file or key=-");
    if (value === "-") {
      const bytes = await readAll(cli.io.input, VALUE_BYTES_MAX);
      const text = decodeUtf8(bytes, "standard input").replace(/\r?\n$/, "");
      if (text === "")
        throw new UsageError(
          `standard input is empty, so ${key} would have an empty value`,
          `check the command before the pipe; ${key}= sets an empty value`,
        );
      data[key] = text;
    } else if (value.startsWith("@")) {
      data[key] = decodeUtf8(readValueFile(cli, value.slice(1)), value.slice(1));
    } else {
      data[key] = value;
    }
  }
  return data;
}

function readValueFile(cli: Cli, path: string): Buffer {
  try {
    return readFileSync(resolve(cli.io.workingDirectory, path));
  } catch (error) {
    throw new BerthError("invalid_request", `cannot read ${path}: ${getErrorMessage(error)}`, {
      hint: "a value that starts with @ names a file; use key=- for text that starts with @",
    });
  }
}

function decodeUtf8(bytes: Buffer, origin: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new BerthError("invalid_request", `${origin} is not UTF-8 text`, {
      hint: "encode binary values first, for example with base64",
    });
  }
}
