import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { AssistantError } from "../../assistant-error.ts";
import { splitPartPattern, statModelFile } from "./model-file-stat.ts";

/** A model that could be loaded. */
export interface KnownModel {
  readonly id: string;
  readonly path: string;
  /** Other names that clients may use. */
  readonly aliases: readonly string[];
  /** When its file was last written, in milliseconds since the Unix epoch: another time is another file. */
  readonly modifiedMs: number;
  /** Of all its files; undefined where they cannot be looked at, and for the stub's, which has none. */
  readonly sizeBytes: number | undefined;
  /** Loaded at start and kept: named on the command line, or wanted by whoever drives the control socket. */
  readonly isPinned: boolean;
  /** Of one sequence, in tokens; undefined: the engine decides. */
  readonly contextTokens: number | undefined;
  readonly sequences: number | undefined;
  /** What it may take, beside what all models together may; undefined: no limit of its own. */
  readonly memoryBytesMax: number | undefined;
  /** What was asked for when it was registered; the two above have the daemon's own settings where nothing was. */
  readonly wanted: {
    readonly contextTokens: number | undefined;
    readonly sequences: number | undefined;
  };
}

export interface ModelRegistration {
  readonly id: string;
  readonly path: string;
  /** Further names, for as long as it is registered. */
  readonly aliases?: readonly string[];
  readonly isPinned: boolean;
  readonly contextTokens?: number | undefined;
  readonly sequences?: number | undefined;
  readonly memoryBytesMax?: number | undefined;
}

/** Whether loading one comes to the same as loading the other. */
export function hasSameLoadSettings(one: KnownModel, other: KnownModel): boolean {
  return (
    one.path === other.path &&
    one.modifiedMs === other.modifiedMs &&
    one.contextTokens === other.contextTokens &&
    one.sequences === other.sequences
  );
}

/** Of its own, in bytes; Infinity: none. */
export function getMemoryLimit({ memoryBytesMax }: KnownModel): number {
  return memoryBytesMax ?? Number.POSITIVE_INFINITY;
}

/** What a model may be called: a repository path with an optional tag, as hubs and Ollama write it. */
export const modelIdPattern =
  "^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*(:[A-Za-z0-9._-]+)?$";
export const MODEL_ID_LENGTH_MAX = 255;

/**
 * Which models there are: those that were named when the daemon started, those that the control socket
 * registered, and every GGUF file in the models folder, which is read anew each time.
 */
export class KnownModels {
  readonly #folder: string | undefined;
  readonly #registered = new Map<string, ModelRegistration>();
  /** Alias to id. */
  readonly #aliases: ReadonlyMap<string, string>;
  readonly #defaults: Pick<ModelRegistration, "contextTokens" | "sequences">;

  constructor(options: {
    /** Undefined: none, as with the stub engine. */
    readonly folder: string | undefined;
    readonly aliases: ReadonlyMap<string, string>;
    /** For models that were registered without their own. */
    readonly contextTokens?: number | undefined;
    readonly sequences?: number | undefined;
  }) {
    this.#folder = options.folder;
    this.#aliases = options.aliases;
    this.#defaults = options;
  }

  /**
   * Adds a model, or replaces the one of the same id. Rejects with `invalid_request` for a name that is
   * none, or that is another model's: requests would go to one of the two, and nobody knows to which.
   */
  async register(model: ModelRegistration): Promise<void> {
    assertId(model.id, "id");
    const owner = this.#findIdByAlias(model.id, model.id);
    if (owner !== undefined) throw nameTakenError(model.id, owner, "id");
    const aliases = [...new Set(model.aliases)].filter((alias) => alias !== model.id);
    const ofFolder = aliases.length === 0 ? [] : await this.#listFolder();
    for (const alias of aliases) {
      assertId(alias, "aliases");
      const isId = this.#registered.has(alias) || ofFolder.some(({ id }) => id === alias);
      const other = isId ? alias : this.#findIdByAlias(alias, model.id);
      if (other !== undefined) throw nameTakenError(alias, other, "aliases");
    }
    this.#registered.set(model.id, { ...model, aliases });
  }

  /** The file stays; a model of the folder is known all the same. */
  unregister(id: string): void {
    this.#registered.delete(id);
  }

  /** Registered ones in the order in which they came, then those of the folder by name. */
  async list(): Promise<readonly KnownModel[]> {
    const ofFolder = (await this.#listFolder())
      .filter(({ id }) => !this.#registered.has(id))
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
    // Looked at each time, since files are replaced.
    return Promise.all(
      [...this.#registered.values(), ...ofFolder].map((model) => this.describe(model)),
    );
  }

  /** As a model would be known that was registered so; registers nothing. */
  async describe(model: ModelRegistration): Promise<KnownModel> {
    assertId(model.id, "id");
    const { modifiedMs, sizeBytes } = await statModelFile(model.path);
    const configured = [...this.#aliases].filter(([, target]) => target === model.id);
    return {
      id: model.id,
      path: model.path,
      modifiedMs,
      sizeBytes,
      isPinned: model.isPinned,
      contextTokens: model.contextTokens ?? this.#defaults.contextTokens,
      sequences: model.sequences ?? this.#defaults.sequences,
      memoryBytesMax: model.memoryBytesMax,
      wanted: { contextTokens: model.contextTokens, sequences: model.sequences },
      aliases: [...new Set([...configured.map(([alias]) => alias), ...(model.aliases ?? [])])],
    };
  }

  /** By id or alias. Rejects with `model_not_found` and the names that there are. */
  async find(name: string): Promise<KnownModel> {
    const models = await this.list();
    const id = this.#findIdByAlias(name) ?? name;
    const found = models.find((model) => model.id === id);
    if (found) return found;
    const there = models.map((model) => model.id);
    const missing =
      id === name
        ? `there is no model "${name}"`
        : `"${name}" is another name for the model "${id}", which is not there`;
    throw new AssistantError(
      "model_not_found",
      `${missing}. ${there.length > 0 ? `There is: ${formatIds(there)}` : NO_MODELS_HINT}`,
      { param: "model" },
    );
  }

  /** Whose other name it is, of all but one model. */
  #findIdByAlias(name: string, except?: string): string | undefined {
    const configured = this.#aliases.get(name);
    if (configured !== undefined) return configured === except ? undefined : configured;
    return [...this.#registered.values()].find(
      ({ id, aliases }) => id !== except && aliases?.includes(name),
    )?.id;
  }

  async #listFolder(): Promise<readonly ModelRegistration[]> {
    const folder = this.#folder;
    if (folder === undefined) return [];
    const names = await readdir(folder).catch(() => []);
    return names.flatMap((name) => {
      if (!name.endsWith(".gguf")) return [];
      const whole = name.slice(0, -".gguf".length);
      const part = splitPartPattern.exec(whole)?.groups?.["part"];
      if (part !== undefined && part !== "00001") return [];
      const id = whole.replace(splitPartPattern, "");
      if (!new RegExp(modelIdPattern).test(id)) return [];
      return [{ id, path: join(folder, name), isPinned: false }];
    });
  }
}

const NO_MODELS_HINT =
  'There is none at all yet: start with --model FILE.gguf, or put a GGUF file into the folder "models" of the data directory';

function assertId(id: string, param: string): void {
  if (id.length <= MODEL_ID_LENGTH_MAX && new RegExp(modelIdPattern).test(id)) return;
  throw new AssistantError(
    "invalid_request",
    `"${id.slice(0, MODEL_ID_LENGTH_MAX)}" is not a model id: letters, digits, ".", "_" and "-", parts divided by "/", and a tag after ":"`,
    { param },
  );
}

function nameTakenError(name: string, owner: string, param: string): AssistantError {
  const whose = name === owner ? "the name of a model itself" : `a name of the model "${owner}"`;
  return new AssistantError(
    "invalid_request",
    `"${name}" is ${whose}; a name leads to one model only: choose another`,
    { param },
  );
}

/** The first ten. */
function formatIds(ids: readonly string[]): string {
  const more = ids.length - 10;
  return `${ids.slice(0, 10).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
