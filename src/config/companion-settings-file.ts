import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import type { ErrorObject } from "ajv";
import { type Static, Type } from "typebox";
import { LazyValidator } from "../base/json-validator.ts";
import { findNearest } from "../base/spelling-suggestions.ts";
import { ConfigError } from "./config-error.ts";
import { readConfigYaml } from "./config-yaml.ts";

/** A name that can stand in a label of provenance: `file:notes`. */
const FOLDER_NAME_PATTERN = "^[a-z0-9][a-z0-9_.-]{0,63}$";
const FILE_BYTES_MAX = 1_048_576;
/** A local model by id or alias, or `remote:<provider>:<model>`. */
const MODEL_PATTERN = "^(?!remote:)\\S{1,256}$|^remote:[a-z0-9][a-z0-9_-]{0,31}:\\S{1,216}$";
/** As long as the names of models are; what begins with `remote:` always means a provider. */
const ALIAS_PATTERN = "^(?!remote:)\\S{1,256}$";
/** Each is a request of its own that somebody waits for. */
const CHAIN_MAX = 8;

const strict = { additionalProperties: false };

/** What a person sets for the companion in `companion.yaml`. What is indexed, and with what, counts from the next
 * start; the rest at once when it changes. */
const CompanionDocument = Type.Object(
  {
    paused: Type.Optional(Type.Boolean()),
    disabled_apps: Type.Optional(Type.Array(Type.String())),
    disabled_tools: Type.Optional(Type.Array(Type.String({ pattern: "^[^/]+/[^/]+$" }))),
    confirm: Type.Optional(Type.Union([Type.Literal("any"), Type.Literal("strict")])),
    embedding_model: Type.Optional(Type.String({ minLength: 1 })),
    models: Type.Optional(
      Type.Record(
        Type.String({ pattern: ALIAS_PATTERN }),
        Type.Union([
          Type.String({ pattern: MODEL_PATTERN }),
          Type.Array(Type.String({ pattern: MODEL_PATTERN }), {
            minItems: 1,
            maxItems: CHAIN_MAX,
            uniqueItems: true,
          }),
        ]),
        strict,
      ),
    ),
    index: Type.Optional(
      Type.Array(
        Type.Object(
          {
            name: Type.String({ pattern: FOLDER_NAME_PATTERN }),
            path: Type.String({ minLength: 1 }),
            scope: Type.Optional(Type.String({ pattern: "^[a-z0-9][A-Za-z0-9_.:-]{0,127}$" })),
          },
          strict,
        ),
      ),
    ),
  },
  strict,
);

const validator = new LazyValidator<Static<typeof CompanionDocument>>(CompanionDocument, {
  allErrors: true,
});

/** What each key takes, for whoever wrote something else. */
const expectations: { readonly [key: string]: string } = {
  paused: "true or false",
  disabled_apps: "a list of app ids",
  disabled_tools: "a list of APP_ID/TOOL",
  confirm: '"any" or "strict"',
  embedding_model: "the id of an embedding model",
  models: `names without spaces that do not begin with "remote:", each with a model (a local one, or remote:PROVIDER:MODEL) or a list of 1 to ${CHAIN_MAX} different ones`,
  index: "a list of { name, path, scope } with names of lower-case letters, digits and - _ .",
};

export interface CompanionFile {
  /** No tool is called while it is true. */
  readonly isPaused: boolean;
  readonly disabledApps: ReadonlySet<string>;
  /** `app_id/tool`. */
  readonly disabledTools: ReadonlySet<string>;
  /** strict: whoever asked for a call may not confirm it. */
  readonly confirm: "any" | "strict";
  /** The model whose embeddings rank hybrid searches. Undefined: hybrid searches are answered lexically. */
  readonly embeddingModel: string | undefined;
  /** Names of a person's own for models, and the models that are tried for each, in their order: 1 to 8. */
  readonly models: ReadonlyMap<string, readonly string[]>;
  readonly index: readonly IndexedFolder[];
}

/** A folder whose texts are searched. */
export interface IndexedFolder {
  readonly name: string;
  /** Absolute. */
  readonly path: string;
  /** What a search names to be confined to it; the name where none is given. */
  readonly scope: string;
}

const emptyCompanionFile: CompanionFile = Object.freeze({
  isPaused: false,
  disabledApps: new Set<string>(),
  disabledTools: new Set<string>(),
  confirm: "any",
  embeddingModel: undefined,
  models: new Map<string, readonly string[]>(),
  index: [],
});

/**
 * The settings of this file; the defaults where there is no such file. Throws ConfigError, which names the
 * file and what is wrong in it.
 */
export function readCompanionFile(file: string, homeDirectory = homedir()): CompanionFile {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") return emptyCompanionFile;
    throw new ConfigError(`the companion's settings ${file} cannot be read (${String(code)})`);
  }
  if (text.length > FILE_BYTES_MAX)
    throw new ConfigError(`the companion's settings ${file} are larger than 1 MiB`);
  const { value, at } = readConfigYaml(text, file);
  if (!validator.isValid(value)) throw createConfigError(validator.errors, at);
  const index = (value.index ?? []).map((one) => ({
    name: one.name,
    path: resolveConfiguredPath(one.path, file, homeDirectory),
    scope: one.scope ?? one.name,
  }));
  const twice = index.find(
    (one, place) => index.findIndex(({ name }) => name === one.name) < place,
  );
  if (twice) throw new ConfigError(`${file}: index: the name "${twice.name}" stands twice`);
  const models = new Map(
    Object.entries(value.models ?? {}).map(([name, to]) => [name, [to].flat()]),
  );
  for (const [name, chain] of models) {
    const other = chain.find((model) => models.has(model));
    if (other === undefined) continue;
    throw new ConfigError(
      `${at("models")}: models: "${name}" stands for "${other}", which is one of these names itself; write down its models instead`,
    );
  }
  return {
    isPaused: value.paused ?? false,
    disabledApps: new Set(value.disabled_apps),
    disabledTools: new Set(value.disabled_tools),
    confirm: value.confirm ?? "any",
    embeddingModel: value.embedding_model,
    models,
    index,
  };
}

function createConfigError(
  errors: readonly ErrorObject[],
  at: (key: string) => string,
): ConfigError {
  const told = errors.map((error) => {
    const key = error.instancePath.split("/")[1] ?? "";
    if (error.keyword === "additionalProperties" && key === "") {
      const unknown = String(error.params["additionalProperty"]);
      const meant = findNearest(unknown, Object.keys(expectations));
      return `${at(unknown)}: unknown key "${unknown}"${meant ? `; did you mean "${meant}"?` : ""}`;
    }
    return key === ""
      ? `${at("")}: it holds "key: value" lines`
      : `${at(key)}: ${key} must be ${expectations[key] ?? "something else"}`;
  });
  return new ConfigError(
    [...new Set(told)].join("\n"),
    `known keys: ${Object.keys(expectations).join(", ")}`,
  );
}

/** `~` is the person's home; what is relative counts from the file's folder. */
function resolveConfiguredPath(text: string, file: string, home: string): string {
  if (text === "~" || text.startsWith("~/")) return join(home, text.slice(1));
  return isAbsolute(text) ? resolve(text) : resolve(dirname(file), text);
}
