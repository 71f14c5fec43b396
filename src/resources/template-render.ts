import { InvalidSpecError } from "../base/errors.ts";
import { isObject } from "../base/json.ts";
import { formatSuggestion } from "../base/spelling-suggestions.ts";
import { NAME_LENGTH_MAX, namePattern } from "./field-schemas.ts";
import { API_VERSION, type Manifest } from "./kinds.ts";
import { PlaceholderError, parsePlaceholders, type TemplateSegment } from "./placeholders.ts";
import { PART_OF_LABEL } from "./resource.ts";
import {
  generateRandomText,
  getSecretName,
  type ParameterValue,
  type ResolvedParameter,
  resolveParameters,
} from "./template-parameters.ts";
import type { TemplateSpec } from "./template-spec.ts";
import { validateManifest } from "./validate-manifest.ts";

export interface RenderOptions {
  /** The name of the new app. */
  readonly name: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Generates random values; default: the system's random source. */
  readonly random?: (length: number) => string;
}

/**
 * Renders the manifests of a template: its Secrets, then its companion apps (such as a database), and last the main
 * app. Pure, given `random`.
 *
 * In every string of `app` and of a companion's `app`, `${parameter}` is replaced by the value of the parameter,
 * `${name}` by the name of the app and `$${` by a literal `${`. A string that is a single placeholder gets the value
 * with its type, so `port: ${port}` is a number; if that parameter has no value, the key or the list item is omitted.
 * Replaced text is not scanned for placeholders again.
 *
 * A secret parameter is only allowed in `env`, and its value is never part of an App: it is stored in the Secret
 * `<name>-<parameter>` under the key `value`, and the variable becomes a reference. A longer string that contains a
 * secret parameter (such as a DATABASE_URL) is stored as a whole in the Secret of its first secret parameter, under the
 * key `<app>.<VARIABLE>`.
 *
 * Throws InvalidSpecError for unknown, missing or invalid parameters, for unknown placeholders, for names that are too
 * long, and for invalid rendered Apps.
 */
export function renderTemplate(
  template: TemplateSpec,
  input: RenderOptions,
): { manifests: Manifest[] } {
  checkName(input.name);
  const parameters = resolveParameters(
    template,
    input.parameters,
    input.random ?? generateRandomText,
  );
  const secrets = new SecretCollector(input.name, parameters);
  const parts = [
    ...(template.companions ?? []).map((companion, index) => ({
      name: createPartName(input.name, companion.suffix, `/companions/${index}/suffix`),
      app: companion.app,
      path: `/companions/${index}/app`,
    })),
    { name: input.name, app: template.app, path: "/app" },
  ];
  const taken = new Set<string>();
  const apps = parts.map((part) => {
    if (taken.has(part.name)) fail(part.path, `the template makes two apps named "${part.name}"`);
    taken.add(part.name);
    const scope: RenderScope = { name: input.name, app: part.name, parameters, secrets };
    return createManifest("App", part.name, input.name, renderObject(part.app, part.path, scope));
  });
  const manifests = [...secrets.createManifests(), ...apps].map((document) =>
    validateManifest(document),
  );
  return { manifests };
}

/** Marks a value that is omitted. */
const ABSENT = Symbol("absent");

interface RenderScope {
  /** The text that replaces `${name}`: the name of the main app. */
  readonly name: string;
  /** The name of the app that is being rendered: the template's main app or one of its companion apps. */
  readonly app: string;
  readonly parameters: ReadonlyMap<string, ResolvedParameter>;
  readonly secrets: SecretCollector;
}

/** Collects the values that must not be part of an App, by their Secret. */
class SecretCollector {
  readonly #app: string;
  readonly #data = new Map<string, Record<string, string>>();

  constructor(app: string, parameters: ReadonlyMap<string, ResolvedParameter>) {
    this.#app = app;
    for (const [name, { secret, value }] of parameters) {
      if (!secret || value === undefined) continue;
      const secretName = this.#getSecretName(name);
      this.#data.set(secretName, { value: String(value) });
    }
  }

  createReference(parameter: string): { secret: string; key: string } {
    return { secret: this.#getSecretName(parameter), key: "value" };
  }

  addComposedValue(parameter: string, key: string, value: string): { secret: string; key: string } {
    const secret = this.#getSecretName(parameter);
    this.#data.set(secret, { ...this.#data.get(secret), [key]: value });
    return { secret, key };
  }

  createManifests(): unknown[] {
    return [...this.#data].map(([name, data]) =>
      createManifest("Secret", name, this.#app, { data }),
    );
  }

  #getSecretName(parameter: string): string {
    const name = getSecretName(this.#app, parameter);
    if (name.length > NAME_LENGTH_MAX) failForLength("Secret", name, `/parameters/${parameter}`);
    return name;
  }
}

function renderObject(
  object: Readonly<Record<string, unknown>>,
  path: string,
  scope: RenderScope,
): Record<string, unknown> {
  const rendered: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(object)) {
    const keyPath = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const result =
      key === "env" && /^(\/companions\/\d+)?\/app$/.test(path) && isObject(value)
        ? renderEnv(value, keyPath, scope)
        : render(value, keyPath, scope);
    if (result !== ABSENT) rendered[key] = result;
  }
  return rendered;
}

function render(value: unknown, path: string, scope: RenderScope): unknown {
  if (typeof value === "string") {
    const segments = parseSegments(value, path);
    const secret = findFirstSecret(segments, path, scope);
    if (secret !== undefined) {
      fail(
        path,
        `the secret parameter "${secret}" is only allowed in env, because all other fields are shown`,
      );
    }
    return substitute(segments, path, scope);
  }
  if (Array.isArray(value)) {
    return value
      .map((item, index) => render(item, `${path}/${index}`, scope))
      .filter((item) => item !== ABSENT);
  }
  return isObject(value) ? renderObject(value, path, scope) : value;
}

function renderEnv(
  env: Readonly<Record<string, unknown>>,
  path: string,
  scope: RenderScope,
): Record<string, unknown> {
  const rendered: Record<string, unknown> = {};
  for (const [variable, value] of Object.entries(env)) {
    const result = renderVariable(variable, value, `${path}/${variable}`, scope);
    if (result !== ABSENT) rendered[variable] = result;
  }
  return rendered;
}

function renderVariable(
  variable: string,
  value: unknown,
  path: string,
  scope: RenderScope,
): unknown {
  if (typeof value !== "string") return render(value, path, scope);
  const segments = parseSegments(value, path);
  const secret = findFirstSecret(segments, path, scope);
  const result = substitute(segments, path, scope);
  if (secret === undefined || result === ABSENT) return result;
  return segments.length === 1
    ? scope.secrets.createReference(secret)
    : scope.secrets.addComposedValue(secret, `${scope.app}.${variable}`, String(result));
}

/** Returns the first secret parameter with a value. A parameter without a value needs no Secret. */
function findFirstSecret(
  segments: readonly TemplateSegment[],
  path: string,
  scope: RenderScope,
): string | undefined {
  for (const segment of segments) {
    if (!("placeholder" in segment) || segment.placeholder === "name") continue;
    const parameter = requireParameter(segment.placeholder, path, scope);
    if (parameter.secret && parameter.value !== undefined) return segment.placeholder;
  }
  return undefined;
}

function substitute(
  segments: readonly TemplateSegment[],
  path: string,
  scope: RenderScope,
): ParameterValue | typeof ABSENT {
  const values = segments.map((segment) => {
    if ("text" in segment) return segment.text;
    if (segment.placeholder === "name") return scope.name;
    return requireParameter(segment.placeholder, path, scope).value;
  });
  if (values.length === 1) return values[0] ?? ABSENT;
  return values.map((value) => String(value ?? "")).join("");
}

function requireParameter(
  placeholder: string,
  path: string,
  scope: RenderScope,
): ResolvedParameter {
  const parameter = scope.parameters.get(placeholder);
  if (parameter) return parameter;
  const nearest = formatSuggestion(placeholder, ["name", ...scope.parameters.keys()]);
  return fail(path, `"\${${placeholder}}" names no parameter of the template${nearest}`);
}

function parseSegments(text: string, path: string): TemplateSegment[] {
  try {
    return parsePlaceholders(text);
  } catch (error) {
    if (error instanceof PlaceholderError) return fail(path, error.message);
    throw error;
  }
}

function createManifest(
  kind: "App" | "Secret",
  name: string,
  partOf: string,
  spec: unknown,
): unknown {
  return {
    apiVersion: API_VERSION,
    kind,
    metadata: { name, labels: { [PART_OF_LABEL]: partOf } },
    spec,
  };
}

function checkName(name: string): void {
  if (name.length > NAME_LENGTH_MAX) failForLength("app", name, "/name");
  if (!new RegExp(namePattern).test(name)) {
    fail(
      "/name",
      `${JSON.stringify(name)} is not a name: lower-case letters, digits and hyphens, starting and ending with a letter or digit`,
    );
  }
}

function createPartName(app: string, suffix: string, path: string): string {
  const name = `${app}-${suffix}`;
  if (name.length > NAME_LENGTH_MAX) failForLength("companion app", name, path);
  return name;
}

function failForLength(what: string, name: string, path: string): never {
  const over = name.length - NAME_LENGTH_MAX;
  fail(
    path,
    `the ${what} "${name.slice(0, 100)}" would have a name of ${name.length} characters, and at most ${NAME_LENGTH_MAX} are allowed: choose a name that is ${over} shorter`,
  );
}

function fail(path: string, message: string): never {
  throw new InvalidSpecError(message, [{ path, message }]);
}
