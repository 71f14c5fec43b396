import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { tryParseJson } from "../../base/json.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { readAll } from "../read-input.ts";

/** The limit for the arguments in bytes, which is the maximum size of a message to an app. */
const ARGUMENTS_BYTES_MAX = 4 * 1024 * 1024;
const example = `'{"title": "Milk"}', title=Milk, count:=2, @FILE or -`;

/**
 * Returns the arguments of a call as JSON text. They can be JSON, `-` for standard input, `@FILE`, or pairs: `key=text`
 * is a string and `key:=json` any value. The companion, which knows the tool, validates them. Throws UsageError.
 */
export async function readCallArguments(cli: Cli, words: readonly string[]): Promise<string> {
  const [first] = words;
  if (first === undefined) return "{}";
  if (words.length === 1) {
    if (first === "-")
      return decodeUtf8(await readAll(cli.io.input, ARGUMENTS_BYTES_MAX), "standard input");
    if (first.startsWith("@")) return readArgumentFile(cli, first.slice(1));
    if (/^\s*[{[]/.test(first)) return first;
  }
  return JSON.stringify(parsePairs(words));
}

const pairPattern = /^([^=:]+)(:?=)(.*)$/s;

/**
 * Returns `key:=json` for a pair `key=text` whose text is JSON of the type that the tool expects instead of a text;
 * undefined for other words. `errors` are the companion's errors about the arguments.
 */
export function suggestJsonPair(
  word: string,
  errors: readonly { readonly path: string; readonly types: readonly string[] }[],
): string | undefined {
  const [, key = "", sign, text = ""] = pairPattern.exec(word) ?? [];
  if (sign !== "=") return undefined;
  const path = `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  const wanted = errors.flatMap(({ path: at, types }) => (at === path ? types : []));
  const given = listJsonTypes(tryParseJson(text));
  return given.some((type) => wanted.includes(type)) ? `${key}:=${text}` : undefined;
}

function listJsonTypes(value: unknown): readonly string[] {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  if (Number.isInteger(value)) return ["integer", "number"];
  return [typeof value];
}

function parsePairs(words: readonly string[]): Record<string, unknown> {
  const found = new Map<string, unknown>();
  for (const word of words) {
    const match = pairPattern.exec(word);
    const [, key = "", sign, value = ""] = match ?? [];
    if (match === null)
      throw new UsageError(`"${word}" is neither JSON nor KEY=TEXT`, `write ${example}`);
    if (found.has(key)) throw new UsageError(`"${key}" is given twice`);
    found.set(key, sign === "=" ? value : parseJsonValue(word, value));
  }
  return Object.fromEntries(found);
}

function parseJsonValue(word: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    throw new UsageError(
      `the text after := in "${word}" is not JSON`,
      "write a text as KEY=TEXT, and numbers, true, null, lists and objects as KEY:=JSON",
    );
  }
}

function readArgumentFile(cli: Cli, path: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(resolve(cli.io.workingDirectory, path));
  } catch (error) {
    throw new BerthError("invalid_request", `cannot read ${path}: ${getErrorMessage(error)}`);
  }
  return decodeUtf8(bytes, path);
}

function decodeUtf8(bytes: Buffer, origin: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new BerthError("invalid_request", `${origin} is not UTF-8 text`);
  }
}
