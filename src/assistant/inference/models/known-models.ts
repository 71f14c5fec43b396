import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { AssistantError } from "../../errors.ts";

/** A model that could be loaded. */
export interface KnownModel {
  readonly id: string;
  readonly path: string;
  /** Other names that clients may use. */
  readonly aliases: readonly string[];
  /** Seconds since the Unix epoch, as `created` of the model list. */
  readonly created: number;
  /** Loaded at start and kept: named on the command line, or wanted by whoever drives the control socket. */
  readonly isPinned: boolean;
  /** Of one sequence, in tokens; undefined: the engine decides. */
  readonly contextTokens: number | undefined;
  readonly sequences: number | undefined;
}

export interface ModelRegistration {
  readonly id: string;
  readonly path: string;
  readonly isPinned: boolean;
  readonly contextTokens?: number | undefined;
  readonly sequences?: number | undefined;
}

/** What a model may be called: a repository path with an optional tag, as hubs and Ollama write it. */
export const modelIdPattern =
  "^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*(:[A-Za-z0-9._-]+)?$";

/** Parts of a model that is split over several files: the first one stands for all. */
const splitPart = /-(?<part>[0-9]{5})-of-[0-9]{5}$/;

/**
 * Which models there are: those that were named when the daemon started, those that the control socket
 * registered, and every GGUF file in the models folder, which is read anew each time.
 */
export class KnownModels {
  readonly #folder: string | undefined;
  readonly #registered = new Map<string, ModelRegistration & { readonly created: number }>();
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

  /** Adds a model, or replaces the one of the same id. */
  async register(model: ModelRegistration): Promise<void> {
    if (model.id.length > 255 || !new RegExp(modelIdPattern).test(model.id))
      throw new AssistantError(
        "invalid_request",
        `"${model.id}" is not a model id: letters, digits, ".", "_" and "-", parts divided by "/", and a tag after ":"`,
        { param: "id" },
      );
    this.#registered.set(model.id, { ...model, created: await createdAt(model.path) });
  }

  /** The file stays; a model of the folder is known all the same. */
  unregister(id: string): void {
    this.#registered.delete(id);
  }

  /** Registered ones in the order in which they came, then those of the folder by name. */
  async list(): Promise<readonly KnownModel[]> {
    const ofFolder = (await this.#ofFolder())
      .filter(({ id }) => !this.#registered.has(id))
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
    return [...this.#registered.values(), ...ofFolder].map((model) => ({
      id: model.id,
      path: model.path,
      created: model.created,
      isPinned: model.isPinned,
      contextTokens: model.contextTokens ?? this.#defaults.contextTokens,
      sequences: model.sequences ?? this.#defaults.sequences,
      aliases: [...this.#aliases]
        .filter(([, target]) => target === model.id)
        .map(([alias]) => alias),
    }));
  }

  /** By id or alias. Rejects with `model_not_found` and the names that there are. */
  async find(name: string): Promise<KnownModel> {
    const models = await this.list();
    const id = this.#aliases.get(name) ?? name;
    const found = models.find((model) => model.id === id);
    if (found) return found;
    const there = models.map((model) => model.id);
    throw new AssistantError(
      "model_not_found",
      `there is no model "${name}". ${there.length > 0 ? `There is: ${listed(there)}` : "There is none at all yet"}`,
      { param: "model" },
    );
  }

  async #ofFolder(): Promise<readonly (ModelRegistration & { readonly created: number })[]> {
    const folder = this.#folder;
    if (folder === undefined) return [];
    const names = await readdir(folder).catch(() => []);
    const models = names.flatMap((name) => {
      if (!name.endsWith(".gguf")) return [];
      const id = name.slice(0, -".gguf".length);
      const part = splitPart.exec(id)?.groups?.["part"];
      if (part !== undefined && part !== "00001") return [];
      return [{ id: id.replace(splitPart, ""), path: join(folder, name), isPinned: false }];
    });
    return Promise.all(
      models
        .filter(({ id }) => new RegExp(modelIdPattern).test(id))
        .map(async (model) => ({ ...model, created: await createdAt(model.path) })),
    );
  }
}

/** 0 where the file cannot be looked at: loading it will say why. */
async function createdAt(path: string): Promise<number> {
  const facts = await stat(path).catch(() => undefined);
  return facts ? Math.floor(facts.mtimeMs / 1000) : 0;
}

/** The first ten. */
function listed(ids: readonly string[]): string {
  const more = ids.length - 10;
  return `${ids.slice(0, 10).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
