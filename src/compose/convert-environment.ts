import { resolve } from "node:path";
import { forbiddenKeys } from "../resources/plain-value.ts";
import {
  type ComposeNode,
  getValue,
  isNull,
  listEntries,
  listItems,
  type Scalar,
} from "./compose-tree.ts";
import { describeReach } from "./describe-reach.ts";
import { parseEnvFile } from "./env-file.ts";
import { asMapping } from "./merge-services.ts";
import { REACH_HINT } from "./project-folder.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Reads the variables of `env_file`, then those of `environment`, which override them. */
export function convertEnvironment(conversion: ServiceConversion): void {
  for (const item of listItems(conversion.getNode("env_file"))) readEnvFileItem(conversion, item);
  const environment = conversion.getNode("environment");
  if (environment) readVariables(conversion, environment);
}

/**
 * Writes the variables to `env` of the spec. Called after all other conversions, which read and change the variables.
 */
export function writeEnvironment(conversion: ServiceConversion): void {
  const env: NonNullable<typeof conversion.spec.env> = {};
  for (const { name, value, node } of conversion.env.values()) {
    if (!looksLikeSecret(name, value)) env[name] = value;
    else if (conversion.options.secrets === "secret") {
      const secret = getSecretName(conversion.app);
      env[name] = { secret, key: name };
      conversion.secretValues.push({ secret, key: name });
      conversion.addNote(
        node,
        `${name} looks like a secret, so the app reads it from the Secret "${secret}"`,
        `berth secrets set ${secret} ${name}=VALUE, with the value from this line`,
      );
    } else {
      env[name] = value;
      conversion.addNote(
        node,
        `${name} looks like a secret, and its value is in the spec file`,
        "use --secrets secret to write references to Secrets instead",
      );
    }
  }
  if (Object.keys(env).length > 0) conversion.spec.env = env;
}

export function getSecretName(app: string): string {
  return `${app.slice(0, 55).replace(/-+$/, "")}-secrets`;
}

function readVariables(conversion: ServiceConversion, environment: ComposeNode): void {
  if (environment.kind === "scalar") {
    conversion.addLoss(
      environment,
      "this value is omitted: a mapping or a list of NAME=value was expected here",
    );
    return;
  }
  for (const item of environment.kind === "list" ? environment.items : []) {
    if (item.kind !== "scalar")
      conversion.addLoss(item, "this value is omitted: NAME=value was expected here");
    else conversion.markHandled(item);
  }
  for (const { key, value } of listEntries(asMapping(environment))) {
    if (value.kind !== "scalar") {
      conversion.addLoss(value, `the value of ${key} is omitted: it is not a single value`);
      continue;
    }
    conversion.markHandled(value);
    const text = isNull(value) ? conversion.project.variables.get(key) : value.text;
    if (text !== undefined) setVariable(conversion, key, text, value);
    else {
      conversion.addLoss(
        value,
        `${key} takes its value from the environment of Compose, in which it is not set`,
        "set the variable with --env-file, or add it to env",
      );
    }
  }
}

function readEnvFileItem(conversion: ServiceConversion, item: ComposeNode): void {
  const path = item.kind === "map" ? getValue(item, "path") : item;
  const written = conversion.readText(path);
  if (path?.kind !== "scalar" || written === undefined) {
    conversion.addLoss(item, "this value is omitted: it does not name a file");
    return;
  }
  const isRequired = getValue(item, "required");
  const isOptional = isRequired !== undefined && !conversion.isTrue(isRequired);
  const isRaw = conversion.readText(getValue(item, "format")) === "raw";
  const absolute = resolve(path.place.source.folder, written);
  const content = conversion.options.files.read(absolute);
  const file = conversion.options.files.displayPath(absolute);
  if ("problem" in content) {
    const message = `the variables of ${file} are missing: ${content.problem}`;
    if (isOptional) conversion.addNote(path, message);
    else
      conversion.addLoss(
        path,
        message,
        "import again on a machine that has the file, or add the variables to env",
      );
    return;
  }
  const reach = describeReach(conversion, absolute, true);
  if (reach !== undefined) conversion.addUnhandledFinding("unsafe", path, reach, REACH_HINT);
  const read = parseEnvFile(content.text, conversion.project.variables, isRaw);
  const at = (line: number): Scalar => ({
    kind: "scalar",
    path: path.path,
    place: { source: { file, folder: path.place.source.folder }, line, column: 1 },
    value: null,
    text: "",
  });
  for (const { line, message } of read.problems) conversion.addLoss(at(line), message);
  for (const entry of read.entries) {
    const value = entry.value ?? conversion.project.variables.get(entry.key);
    if (value !== undefined) setVariable(conversion, entry.key, value, at(entry.line));
    else
      conversion.addLoss(
        at(entry.line),
        `${entry.key} has no value here, and is not set in the environment`,
      );
    for (const name of entry.unsetVariables) {
      conversion.addLoss(
        at(entry.line),
        `the variable ${name} in the value of ${entry.key} is not set, and is replaced by nothing`,
      );
    }
  }
  conversion.addNote(
    path,
    `the variables of ${file} are copied into env`,
    "Berth does not read the file again: change the variables in the spec",
  );
}

function setVariable(
  conversion: ServiceConversion,
  name: string,
  value: string,
  node: ComposeNode,
): void {
  const isValid = /^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name) && !forbiddenKeys.has(name);
  if (isValid) conversion.env.set(name, { name, value, node });
  else conversion.addLoss(node, `"${name}" is not a valid name for a variable of an App`);
}

const secretNamePattern =
  /(^|_)(PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PW|SECRET|SECRETS|TOKEN|TOKENS|CREDENTIAL|CREDENTIALS|APIKEY|SALT)(_|\d*$)|PASSWORD|SECRET|TOKEN|(^|_)KEY(_BASE)?\d*$/i;
/** Matches names of properties of a secret, such as its file or its lifetime, which are not secret themselves. */
const nonSecretNamePattern =
  /(_FILE|_PATH|_DIR|_TTL|_EXPIRY|_EXPIRATION|_EXPIRES(_IN)?|_LIFETIME|_LENGTH|_TIMEOUT|_ENABLED?|_ALGORITHM|_URL|_HEADER|_NAME|_HOST|_ID)$|PUBLIC_KEY|^PWD$|^OLDPWD$/i;

/** Returns true if a variable probably holds a secret. A URL with a password counts as a secret under any name. */
function looksLikeSecret(name: string, value: string): boolean {
  if (value === "") return false;
  if (/^[a-z][a-z0-9+.-]*:\/\/[^/\s@:]*:[^/\s@]+@/i.test(value)) return true;
  if (/^(true|false|yes|no|on|off|\d{1,5})$/i.test(value) && !/PASS|PWD/i.test(name)) return false;
  return secretNamePattern.test(name) && !nonSecretNamePattern.test(name);
}
