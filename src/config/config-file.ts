import { accessSync, constants, readFileSync } from "node:fs";
import path from "node:path";
import { getErrorCode, getErrorMessage } from "../base/errors.ts";
import { isObject } from "../base/json.ts";
import { findNearest } from "../base/spelling-suggestions.ts";
import { ConfigError } from "./config-error.ts";
import { readConfigYaml } from "./config-yaml.ts";
import { type ConfigKey, secretSettings, serverSettingList } from "./server-settings.ts";

/** The settings of one file, with values as written. */
export type ConfigFile = { readonly [Key in ConfigKey]?: string };

/** Largest size of a config file, far above any real one; a larger file was probably named by mistake. */
const FILE_BYTES_MAX = 1_048_576;

/**
 * Returns the settings of one file with values as written, or undefined if the file does not exist; an empty file has
 * no settings. Throws ConfigError, which names file, line and column of each mistake.
 */
export function readConfigFile(file: string): ConfigFile | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (getErrorCode(error) === "ENOENT" || getErrorCode(error) === "ENOTDIR") return undefined;
    // Without access to the folder, Berth cannot determine if the file exists, so this is an error.
    const folder = path.dirname(file);
    if (getErrorCode(error) === "EACCES" && !canEnter(folder)) {
      throw new ConfigError(
        `this user may not read ${folder}, which may contain the config file`,
        "run this command as the user who runs Berth with this folder, or name another folder with --data-dir",
      );
    }
    throw new ConfigError(
      `the config file ${file} cannot be read: ${getErrorMessage(error)}`,
      "make the file readable, or name another file with --config",
    );
  }
  if (text.length > FILE_BYTES_MAX)
    throw new ConfigError(`the config file ${file} is larger than 1 MiB`);

  const { value, at } = readConfigYaml(text, file);
  if (!isObject(value))
    throw createConfigError([`${at("")}: a config file contains "key: value" lines`]);
  const settings: { [Key in ConfigKey]?: string } = {};
  const problems = Object.keys(value)
    .filter((key) => serverSettingList.every((setting) => setting.key !== key))
    .map((key) => explainUnknownKey(key, at));
  for (const { key, expects, parse } of serverSettingList) {
    const found = value[key];
    if (found === undefined) continue;
    if (typeof found === "string" && parse(found) !== undefined) settings[key] = found;
    else problems.push(`${at(key)}: ${key} must be ${expects}, not ${JSON.stringify(found)}`);
  }
  if (problems.length > 0) throw createConfigError(problems);
  return settings;
}

function createConfigError(problems: readonly string[]): ConfigError {
  const keys = serverSettingList.map(({ key }) => key);
  return new ConfigError(problems.join("\n"), `known keys: ${keys.join(", ")}`);
}

function canEnter(folder: string): boolean {
  try {
    accessSync(folder, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function explainUnknownKey(key: string, at: (key: string) => string): string {
  const secret = secretSettings.find((one) => one.key === key);
  if (secret)
    return `${at(key)}: ${secret.what} is not allowed in a config file; set ${secret.variable} instead`;
  const known = serverSettingList.map((setting) => setting.key);
  const meant = findNearest(key, known);
  return `${at(key)}: unknown key "${key}"${meant ? `; did you mean "${meant}"?` : ""}`;
}
