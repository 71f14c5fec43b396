import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import type { ErrorObject } from "ajv";
import { type Static, Type } from "typebox";
import { getErrorCode } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";
import { findUntrustedStep, listPathSteps, type PathStep } from "../base/path-trust.ts";
import { findPrivateGroup } from "../base/private-group.ts";
import { findNearest } from "../base/spelling-suggestions.ts";
import { parseDuration } from "../base/units.ts";
import { ConfigError } from "./config-error.ts";
import { readConfigYaml } from "./config-yaml.ts";
import { ORIGIN_PATTERN } from "./configured-origin.ts";

/** Matches a folder name that is allowed in a provenance label such as `file:notes`. */
const FOLDER_NAME_PATTERN = "^[a-z0-9][a-z0-9_.-]{0,63}$";
const FILE_BYTES_MAX = 1_048_576;
/** Matches the id or alias of a local model, or `remote:<provider>:<model>`. */
const MODEL_PATTERN = "^(?!remote:)\\S{1,256}$|^remote:[a-z0-9][a-z0-9_-]{0,31}:\\S{1,216}$";
/**
 * Matches an alias. Its length limit is that of a model's name. An alias must not begin with `remote:`, which marks the
 * models of providers.
 */
const ALIAS_PATTERN = "^(?!remote:)\\S{1,256}$";
/** Matches `keep`, or a number of hours or days. */
const RETENTION_PATTERN = "^(keep|[1-9][0-9]{0,4}[hd])$";
/** The maximum number of models of one alias, because each of them may cost a request while the user waits. */
const CHAIN_MAX = 8;

const strict = { additionalProperties: false };

/**
 * The user's settings of the companion in `companion.yaml`. Changes of `index` and `embedding_model` take effect at
 * the next start, all other changes immediately.
 */
const CompanionDocument = Type.Object(
  {
    paused: Type.Optional(Type.Boolean()),
    disabled_apps: Type.Optional(Type.Array(Type.String())),
    disabled_tools: Type.Optional(Type.Array(Type.String({ pattern: "^[^/]+/[^/]+$" }))),
    confirm: Type.Optional(Type.Union([Type.Literal("any"), Type.Literal("strict")])),
    serve_other_users: Type.Optional(Type.Boolean()),
    allowed_origins: Type.Optional(Type.Array(Type.String({ pattern: ORIGIN_PATTERN }))),
    embedding_model: Type.Optional(Type.String({ minLength: 1 })),
    ledger_retention: Type.Optional(Type.String({ pattern: RETENTION_PATTERN })),
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

/** For each key, the text that completes "KEY must be ..." in messages. */
const expectations: { readonly [key: string]: string } = {
  paused: "true or false",
  disabled_apps: "a list of app ids",
  disabled_tools: "a list of APP_ID/TOOL",
  confirm: '"any" or "strict"',
  serve_other_users: "true or false",
  allowed_origins:
    "a list of values of the Origin header, such as app://obsidian.md, without a path and without wildcards",
  embedding_model: "the id of an embedding model",
  ledger_retention: '"keep", or a number of days or hours such as 90d or 12h',
  models: `names without spaces that do not begin with "remote:", each with a model (a local one, or remote:PROVIDER:MODEL) or a list of 1 to ${CHAIN_MAX} different ones`,
  index: "a list of { name, path, scope } with names of lower-case letters, digits and - _ .",
};

export interface CompanionFile {
  /** If true, no tool is called. */
  readonly isPaused: boolean;
  readonly disabledApps: ReadonlySet<string>;
  /** The ids of tools that are never called, as `app_id/tool`. */
  readonly disabledTools: ReadonlySet<string>;
  /** With `strict`, the program that requested a call may not confirm it. */
  readonly confirm: "any" | "strict";
  /** True if port 7778 serves the programs of other users, too. */
  readonly servesOtherUsers: boolean;
  /** The values of the Origin header of web pages that may use port 7778. */
  readonly allowedOrigins: ReadonlySet<string>;
  /** The model whose embeddings rank hybrid searches; undefined if hybrid searches are answered lexically. */
  readonly embeddingModel: string | undefined;
  /** How long the texts of the ledger are kept, in milliseconds; undefined if they are never erased. */
  readonly ledgerRetentionMs: number | undefined;
  /** The user's own names for models. Each name has 1 to 8 models, which are tried in order. */
  readonly models: ReadonlyMap<string, readonly string[]>;
  readonly index: readonly IndexedFolder[];
}

/** A folder whose texts are indexed for search. */
export interface IndexedFolder {
  readonly name: string;
  /** The absolute path of the indexed folder. */
  readonly path: string;
  /** The scope that restricts a search to this folder; default: the name of the folder. */
  readonly scope: string;
}

const emptyCompanionFile: CompanionFile = Object.freeze({
  isPaused: false,
  disabledApps: new Set<string>(),
  disabledTools: new Set<string>(),
  confirm: "any",
  servesOtherUsers: false,
  allowedOrigins: new Set<string>(),
  embeddingModel: undefined,
  ledgerRetentionMs: undefined,
  models: new Map<string, readonly string[]>(),
  index: [],
});

/**
 * Reads the settings file, or returns the defaults if the file does not exist. Throws ConfigError, which names the
 * file and the problem. A file that other users can write, replace or remove is refused, because the settings decide
 * which tools run and who may use the companion.
 */
export function readCompanionFile(file: string, homeDirectory = homedir()): CompanionFile {
  let text: string;
  try {
    assertTrusted(file);
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const code = getErrorCode(error);
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
  if (twice) throw new ConfigError(`${file}: index: the name "${twice.name}" is used twice`);
  const models = new Map(
    Object.entries(value.models ?? {}).map(([name, to]) => [name, [to].flat()]),
  );
  for (const [name, chain] of models) {
    const other = chain.find((model) => models.has(model));
    if (other === undefined) continue;
    throw new ConfigError(
      `${at("models")}: models: "${name}" stands for "${other}", which is itself a name under models; list the models of "${other}" instead`,
    );
  }
  return {
    isPaused: value.paused ?? false,
    disabledApps: new Set(value.disabled_apps),
    disabledTools: new Set(value.disabled_tools),
    confirm: value.confirm ?? "any",
    servesOtherUsers: value.serve_other_users ?? false,
    allowedOrigins: new Set(value.allowed_origins),
    embeddingModel: value.embedding_model,
    ledgerRetentionMs: parseRetention(value.ledger_retention),
    models,
    index,
  };
}

function parseRetention(text = "keep"): number | undefined {
  return text === "keep" ? undefined : parseDuration(text);
}

function createConfigError(
  errors: readonly ErrorObject[],
  at: (key: string) => string,
): ConfigError {
  const problems = errors.map((error) => {
    const key = error.instancePath.split("/")[1] ?? "";
    if (error.keyword === "additionalProperties" && key === "") {
      const unknown = String(error.params["additionalProperty"]);
      const meant = findNearest(unknown, Object.keys(expectations));
      return `${at(unknown)}: unknown key "${unknown}"${meant ? `; did you mean "${meant}"?` : ""}`;
    }
    return key === ""
      ? `${at("")}: it contains "key: value" lines`
      : `${at(key)}: ${key} must be ${expectations[key] ?? "something else"}`;
  });
  return new ConfigError(
    [...new Set(problems)].join("\n"),
    `known keys: ${Object.keys(expectations).join(", ")}`,
  );
}

/** Resolves `~` to the user's home directory, and relative paths against the folder of the settings file. */
function resolveConfiguredPath(text: string, file: string, home: string): string {
  if (text === "~" || text.startsWith("~/")) return join(home, text.slice(1));
  return isAbsolute(text) ? resolve(text) : resolve(dirname(file), text);
}

/**
 * Throws ConfigError if other users can write, replace or remove the file. Also checks the path of a
 * missing file, because such users could have removed it.
 */
function assertTrusted(file: string): void {
  const steps = listExistingSteps(resolve(file));
  const open = findUntrustedStep(steps, process.getuid?.() ?? 0, findPrivateGroup());
  if (!open) return;
  const what = open.stats.isDirectory() ? open.path : "it";
  throw new ConfigError(
    `the companion's settings ${file} are not used, because other users can change ${what}`,
    `make sure that only you and root own and can write ${open.path} (chown, chmod go-w), or move the file to a folder of yours`,
  );
}

/**
 * Lists the folders and links on the path to a file. If the file does not exist, lists those on the path to the last
 * existing folder.
 */
function listExistingSteps(file: string): PathStep[] {
  try {
    return listPathSteps(file);
  } catch (error) {
    if (getErrorCode(error) !== "ENOENT" || file === dirname(file)) throw error;
    return listExistingSteps(dirname(file));
  }
}
