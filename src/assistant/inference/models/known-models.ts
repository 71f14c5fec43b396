import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { AssistantError } from "../../assistant-error.ts";
import { splitPartPattern, statModelFile } from "./model-file-stat.ts";
import type { ChatTemplateSetting } from "./read-chat-template.ts";

/** A model that can be loaded. */
export interface KnownModel {
  readonly id: string;
  readonly path: string;
  /** Alternative names of the model, which clients may use. */
  readonly aliases: readonly string[];
  /**
   * The time when the file was last written, in epoch milliseconds; a file with another time counts as another file.
   */
  readonly modifiedMs: number;
  /**
   * The size of all files of the model; undefined if the files cannot be read, and for the model of the stub engine,
   * which has no files.
   */
  readonly sizeBytes: number | undefined;
  /**
   * True if the model is loaded at start and kept in memory: it was named on the command line, or registered as pinned
   * through the control socket.
   */
  readonly isPinned: boolean;
  /** The context of one KV-cache sequence in tokens; undefined if the engine decides. */
  readonly contextTokens: number | undefined;
  readonly sequences: number | undefined;
  /** See `LoadRequest`. */
  readonly isDeterministic: boolean;
  /** The model's own memory limit, in addition to the common one; undefined if there is none. */
  readonly memoryBytesMax: number | undefined;
  /** The text of the chat template that replaces the file's own; undefined if there is none. */
  readonly chatTemplate: string | undefined;
  /**
   * The settings that the registration of the model contains. The members of `KnownModel` with the same names also
   * contain the settings of the daemon.
   */
  readonly wanted: {
    readonly contextTokens: number | undefined;
    readonly sequences: number | undefined;
    /** The chat template as it was given: its text, or the path of a file. */
    readonly chatTemplate: string | undefined;
    readonly isDeterministic: boolean | undefined;
  };
}

export interface ModelRegistration {
  readonly id: string;
  readonly path: string;
  /** Alternative names of the model, which clients may use while the model is registered. */
  readonly aliases?: readonly string[];
  readonly isPinned: boolean;
  readonly contextTokens?: number | undefined;
  readonly sequences?: number | undefined;
  readonly isDeterministic?: boolean | undefined;
  readonly memoryBytesMax?: number | undefined;
  readonly chatTemplate?: ChatTemplateSetting | undefined;
}

/** Returns true if the two registrations load the same model with the same settings. */
export function hasSameLoadSettings(one: KnownModel, other: KnownModel): boolean {
  return (
    one.path === other.path &&
    one.modifiedMs === other.modifiedMs &&
    one.contextTokens === other.contextTokens &&
    one.chatTemplate === other.chatTemplate &&
    one.sequences === other.sequences &&
    one.isDeterministic === other.isDeterministic
  );
}

/** Returns the model's own limit in bytes; Infinity if there is none. */
export function getMemoryLimit({ memoryBytesMax }: KnownModel): number {
  return memoryBytesMax ?? Number.POSITIVE_INFINITY;
}

/** A model id: a repository path with an optional tag, as hubs and Ollama write it. */
export const modelIdPattern =
  "^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*(:[A-Za-z0-9._-]+)?$";
export const MODEL_ID_LENGTH_MAX = 255;

/**
 * The list of models: those named when the daemon started, those registered through the control socket,
 * and every GGUF file in the models folder, which is read for each call.
 */
export class KnownModels {
  readonly #folder: string | undefined;
  readonly #registered = new Map<string, ModelRegistration>();
  /** Maps each alias to a model id. */
  readonly #aliases: ReadonlyMap<string, string>;
  readonly #defaults: Pick<ModelRegistration, "contextTokens" | "sequences" | "isDeterministic">;

  constructor(options: {
    /** The models folder; undefined if there is none, as with the stub engine. */
    readonly folder: string | undefined;
    readonly aliases: ReadonlyMap<string, string>;
    /**
     * The context size, the number of KV-cache sequences and the repeatability for models whose registration does not
     * set them.
     */
    readonly contextTokens?: number | undefined;
    readonly sequences?: number | undefined;
    readonly isDeterministic?: boolean | undefined;
  }) {
    this.#folder = options.folder;
    this.#aliases = options.aliases;
    this.#defaults = options;
  }

  /**
   * Adds a model, or replaces the one with the same id. Rejects with `invalid_request` if a name is
   * malformed or belongs to another model.
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

  /**
   * Removes the registration of a model, but not its file. If the file is in the models folder, the model remains in
   * the list.
   */
  unregister(id: string): void {
    this.#registered.delete(id);
  }

  /**
   * Returns the registered models in the order of registration, then the models found in the model folder, ordered by
   * id.
   */
  async list(): Promise<readonly KnownModel[]> {
    const ofFolder = (await this.#listFolder())
      .filter(({ id }) => !this.#registered.has(id))
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
    // Files can be replaced at any time, so their sizes and modification times are read for each call.
    return Promise.all(
      [...this.#registered.values(), ...ofFolder].map((model) => this.describe(model)),
    );
  }

  /** Returns the model that `register` would add for the same registration, without adding it. */
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
      isDeterministic: model.isDeterministic ?? this.#defaults.isDeterministic ?? false,
      memoryBytesMax: model.memoryBytesMax,
      chatTemplate: model.chatTemplate?.text,
      wanted: {
        contextTokens: model.contextTokens,
        sequences: model.sequences,
        chatTemplate: model.chatTemplate?.given,
        isDeterministic: model.isDeterministic,
      },
      aliases: [...new Set([...configured.map(([alias]) => alias), ...(model.aliases ?? [])])],
    };
  }

  /** Finds a model by id or alias. Rejects with `model_not_found`; the message lists the models. */
  async find(name: string): Promise<KnownModel> {
    const models = await this.list();
    const id = this.#findIdByAlias(name) ?? name;
    const found = models.find((model) => model.id === id);
    if (found) return found;
    const ids = models.map((model) => model.id);
    const missing =
      id === name
        ? `there is no model "${name}"`
        : `"${name}" is an alias of the model "${id}", which does not exist`;
    throw new AssistantError(
      "model_not_found",
      `${missing}. ${ids.length > 0 ? `Available models: ${formatIds(ids)}` : NO_MODELS_HINT}`,
      { param: "model" },
    );
  }

  /** Returns the id of the model that has this alias; the model `except` is not considered. */
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
  'No model is available yet: start with --model FILE.gguf, or put a GGUF file into the folder "models" of the data directory';

function assertId(id: string, param: string): void {
  if (id.length <= MODEL_ID_LENGTH_MAX && new RegExp(modelIdPattern).test(id)) return;
  throw new AssistantError(
    "invalid_request",
    `"${id.slice(0, MODEL_ID_LENGTH_MAX)}" is not a model id: letters, digits, ".", "_" and "-", parts separated by "/", and an optional tag after ":"`,
    { param },
  );
}

function nameTakenError(name: string, owner: string, param: string): AssistantError {
  const usage = name === owner ? "the id of another model" : `an alias of the model "${owner}"`;
  return new AssistantError(
    "invalid_request",
    `"${name}" is ${usage}; a name can belong to one model only: choose another`,
    { param },
  );
}

/** Formats the first ten ids for a message. */
function formatIds(ids: readonly string[]): string {
  const more = ids.length - 10;
  return `${ids.slice(0, 10).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
