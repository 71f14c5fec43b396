import { accessSync, constants, readFileSync } from "node:fs";
import path from "node:path";
import type { ErrorObject } from "ajv";
import { getErrorMessage } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";
import { findNearest } from "../base/spelling-suggestions.ts";
import { ConfigError } from "./config-error.ts";
import { ConfigFile, type ConfigKey, configSettings, secretSettings } from "./config-schema.ts";
import { readConfigYaml } from "./config-yaml.ts";

/** No config file of a person is near this; a larger file is another file named by mistake. */
const FILE_BYTES_MAX = 1_048_576;

const validator = new LazyValidator<ConfigFile>(ConfigFile, { allErrors: true });

/**
 * The settings of one file as written. Undefined where there is no such file; an empty file holds
 * no settings. Throws ConfigError naming file, line and column for anything that is wrong in it.
 */
export function readConfigFile(file: string): ConfigFile | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (getErrorCode(error) === "ENOENT" || getErrorCode(error) === "ENOTDIR") return undefined;
    // Whether the file is there at all is not known then.
    const folder = path.dirname(file);
    if (getErrorCode(error) === "EACCES" && !canEnter(folder)) {
      throw new ConfigError(
        `this user may not look into ${folder}, where the config file would be`,
        "run this as the user who runs Berth there, or name another folder with --data-dir",
      );
    }
    throw new ConfigError(
      `the config file ${file} cannot be read: ${getErrorMessage(error)}`,
      "make it readable, or name another with --config",
    );
  }
  if (text.length > FILE_BYTES_MAX)
    throw new ConfigError(`the config file ${file} is larger than 1 MiB`);

  const { value, at } = readConfigYaml(text, file);
  if (!validator.isValid(value)) {
    const problems = validator.errors.map((error) => explainError(error, value, at));
    throw new ConfigError(
      problems.length === 0 ? `${file} is not valid` : problems.join("\n"),
      `known keys: ${configSettings.map((setting) => setting.key).join(", ")}`,
    );
  }
  return value;
}

function canEnter(folder: string): boolean {
  try {
    accessSync(folder, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Undefined when the value may stand; otherwise what the key must be. */
export function describeExpectedValue(key: ConfigKey, value: string): string | undefined {
  if (validator.isValid({ [key]: value })) return undefined;
  return configSettings.find((setting) => setting.key === key)?.expects ?? "text";
}

function explainError(error: ErrorObject, value: unknown, at: (key: string) => string): string {
  if (error.keyword === "additionalProperties") {
    const key = String(error.params["additionalProperty"]);
    const secret = secretSettings.find((one) => one.key === key);
    if (secret)
      return `${at(key)}: ${secret.what} never stands in a config file; set ${secret.variable} instead`;
    const meant = findNearest(
      key,
      configSettings.map((setting) => setting.key),
    );
    return `${at(key)}: unknown key "${key}"${meant ? `; did you mean "${meant}"?` : ""}`;
  }
  const key = error.instancePath.slice(1);
  if (key === "") return `${at("")}: a config file holds "key: value" lines`;
  const found: unknown = Object.entries(value ?? {}).find(([name]) => name === key)?.[1];
  const expected = configSettings.find((setting) => setting.key === key)?.expects ?? "text";
  return `${at(key)}: ${key} must be ${expected}, not ${JSON.stringify(found)}`;
}

function getErrorCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
