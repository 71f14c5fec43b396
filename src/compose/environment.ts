import { resolve } from "node:path";
import { readEnvFile } from "./env-file.ts";
import { asMapping } from "./merge.ts";
import type { ServiceScope } from "./scope.ts";
import { type ComposeNode, entriesOf, isNull, type Scalar, valueAt } from "./tree.ts";

/** Variables of `env_file`, and over them those of `environment`. */
export function convertEnvironment(scope: ServiceScope): void {
  const files = scope.get("env_file");
  for (const item of files?.kind === "list" ? files.items : files ? [files] : []) {
    readFileOf(scope, item);
  }
  const environment = scope.get("environment");
  if (environment) readVariables(scope, environment);
}

/** Fills `env` of the spec, once the other parts have had their look at the variables. */
export function writeEnvironment(scope: ServiceScope): void {
  const env: NonNullable<typeof scope.spec.env> = {};
  for (const { name, value, node } of scope.env.values()) {
    if (!looksSecret(name, value)) env[name] = value;
    else if (scope.options.secrets === "secret") {
      const secret = secretName(scope.app);
      env[name] = { secret, key: name };
      scope.secretValues.push({ secret, key: name });
      scope.note(
        node,
        `${name} looks like a secret, so the app takes it from the Secret "${secret}"`,
        `berth secrets set ${secret} ${name}=VALUE, with the value of this place`,
      );
    } else {
      env[name] = value;
      scope.note(
        node,
        `${name} looks like a secret, and its value stands in the spec file`,
        "--secrets secret makes references to Secrets of such variables",
      );
    }
  }
  for (const [name, reference] of scope.references) env[name] = reference;
  if (Object.keys(env).length > 0) scope.spec.env = env;
}

export function secretName(app: string): string {
  return `${app.slice(0, 55).replace(/-+$/, "")}-secrets`;
}

function readVariables(scope: ServiceScope, environment: ComposeNode): void {
  if (environment.kind === "scalar") {
    scope.lost(environment, "is left out: a mapping or a list of NAME=value was expected here");
    return;
  }
  for (const item of environment.kind === "list" ? environment.items : []) {
    if (item.kind !== "scalar") scope.lost(item, "is left out: NAME=value was expected here");
    else scope.take(item);
  }
  for (const { key, value } of entriesOf(asMapping(environment))) {
    if (value.kind !== "scalar") {
      scope.lost(value, `the value of ${key} is left out: it is no single value`);
      continue;
    }
    scope.take(value);
    const text = isNull(value) ? scope.project.variables.get(key) : value.text;
    if (text !== undefined) set(scope, key, text, value);
    else {
      scope.lost(
        value,
        `${key} takes its value from the environment of Compose, and it is not set`,
        "give it with --env-file, or add it to env",
      );
    }
  }
}

function readFileOf(scope: ServiceScope, item: ComposeNode): void {
  const path = item.kind === "map" ? valueAt(item, "path") : item;
  const written = scope.text(path);
  if (path?.kind !== "scalar" || written === undefined) {
    scope.lost(item, "is left out: it names no file");
    return;
  }
  const isRequired = valueAt(item, "required");
  const isOptional = isRequired !== undefined && !scope.isTrue(isRequired);
  const isRaw = scope.text(valueAt(item, "format")) === "raw";
  const absolute = resolve(path.place.source.folder, written);
  const content = scope.options.files.read(absolute);
  const file = scope.options.files.show(absolute);
  if ("problem" in content) {
    const message = `the variables of ${file} are missing: ${content.problem}`;
    if (isOptional) scope.note(path, message);
    else scope.lost(path, message, "import again where the file is, or add them to env");
    return;
  }
  const read = readEnvFile(content.text, scope.project.variables, isRaw);
  const at = (line: number): Scalar => ({
    kind: "scalar",
    path: path.path,
    place: { source: { file, folder: path.place.source.folder }, line, column: 1 },
    value: null,
    text: "",
  });
  for (const { line, message } of read.problems) scope.lost(at(line), message);
  for (const entry of read.entries) {
    const value = entry.value ?? scope.project.variables.get(entry.key);
    if (value !== undefined) set(scope, entry.key, value, at(entry.line));
    else scope.lost(at(entry.line), `${entry.key} has no value here, and is not set elsewhere`);
    for (const name of entry.unset) {
      scope.lost(at(entry.line), `the variable ${name} is not set, so ${entry.key} lacks it`);
    }
  }
  scope.note(
    path,
    `the variables of ${file} are copied into env`,
    "Berth does not follow the file: change them in the spec",
  );
}

function set(scope: ServiceScope, name: string, value: string, node: ComposeNode): void {
  if (/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name)) scope.env.set(name, { name, value, node });
  else scope.lost(node, `"${name}" is not the name of a variable that an App can have`);
}

const secretWords =
  /(^|_)(PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PW|SECRET|SECRETS|TOKEN|TOKENS|CREDENTIAL|CREDENTIALS|APIKEY|SALT)(_|\d*$)|PASSWORD|SECRET|TOKEN|(^|_)KEY(_BASE)?\d*$/i;
/** Names of things that are said about a secret, or lie beside it. */
const harmless =
  /(_FILE|_PATH|_DIR|_TTL|_EXPIRY|_EXPIRATION|_EXPIRES(_IN)?|_LIFETIME|_LENGTH|_TIMEOUT|_ENABLED?|_ALGORITHM|_URL|_HEADER|_NAME|_HOST|_ID)$|PUBLIC_KEY|^PWD$|^OLDPWD$/i;

/** A URL with a password in it is one, too, whatever its name. */
function looksSecret(name: string, value: string): boolean {
  if (value === "") return false;
  if (/^[a-z][a-z0-9+.-]*:\/\/[^/\s@]*:[^/\s@]+@/i.test(value)) return true;
  if (/^(true|false|yes|no|on|off|\d{1,5})$/i.test(value) && !/PASS|PWD/i.test(name)) return false;
  return secretWords.test(name) && !harmless.test(name);
}
