import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { AssistantError } from "../../errors.ts";

/** A model that could be loaded. */
export interface KnownModel {
  readonly id: string;
  readonly path: string;
  /** Other names that clients may use. */
  readonly aliases: readonly string[];
  /** When its file was last written, in milliseconds since the Unix epoch: another time is another file. */
  readonly modifiedMs: number;
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

/** Whether loading one comes to the same as loading the other. */
export function isLoadedAlike(one: KnownModel, other: KnownModel): boolean {
  return (
    one.path === other.path &&
    one.modifiedMs === other.modifiedMs &&
    one.contextTokens === other.contextTokens &&
    one.sequences === other.sequences
  );
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

  /** Adds a model, or replaces the one of the same id. */
  async register(model: ModelRegistration): Promise<void> {
    if (model.id.length > 255 || !new RegExp(modelIdPattern).test(model.id))
      throw new AssistantError(
        "invalid_request",
        `"${model.id}" is not a model id: letters, digits, ".", "_" and "-", parts divided by "/", and a tag after ":"`,
        { param: "id" },
      );
    this.#registered.set(model.id, model);
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
    const models = [...this.#registered.values(), ...ofFolder];
    // Looked at each time, since files are replaced.
    const modified = await Promise.all(models.map(({ path }) => modifiedAt(path)));
    return models.map((model, index) => ({
      id: model.id,
      path: model.path,
      modifiedMs: modified[index] ?? 0,
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
    const missing =
      id === name
        ? `there is no model "${name}"`
        : `"${name}" is another name for the model "${id}", which is not there`;
    throw new AssistantError(
      "model_not_found",
      `${missing}. ${there.length > 0 ? `There is: ${listed(there)}` : NONE_YET}`,
      { param: "model" },
    );
  }

  async #ofFolder(): Promise<readonly ModelRegistration[]> {
    const folder = this.#folder;
    if (folder === undefined) return [];
    const names = await readdir(folder).catch(() => []);
    return names.flatMap((name) => {
      if (!name.endsWith(".gguf")) return [];
      const whole = name.slice(0, -".gguf".length);
      const part = splitPart.exec(whole)?.groups?.["part"];
      if (part !== undefined && part !== "00001") return [];
      const id = whole.replace(splitPart, "");
      if (!new RegExp(modelIdPattern).test(id)) return [];
      return [{ id, path: join(folder, name), isPinned: false }];
    });
  }
}

const NONE_YET =
  'There is none at all yet: start with --model FILE.gguf, or put a GGUF file into the folder "models" of the data directory';

/** 0 where the file cannot be looked at: loading it will say why; the stub's models have none. */
async function modifiedAt(path: string): Promise<number> {
  if (path === "") return 0;
  const facts = await stat(path).catch(() => undefined);
  return facts?.mtimeMs ?? 0;
}

/** The first ten. */
function listed(ids: readonly string[]): string {
  const more = ids.length - 10;
  return `${ids.slice(0, 10).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
