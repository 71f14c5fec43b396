import { createHash } from "node:crypto";
import { deepEqual } from "../../src/base/canonical-json.ts";
import { type Clock, delay } from "../../src/base/clock.ts";
import { BerthError } from "../../src/base/errors.ts";
import { raceWithAbort } from "../../src/base/race-with-abort.ts";
import type {
  AssistantControl,
  AssistantModel,
  AssistantReport,
  AssistantState,
  InspectedModel,
  LoadModelRequest,
} from "../../src/controller/models/assistant/port.ts";
import type {
  CollectedFile,
  DownloadProgress,
  ModelFiles,
  StoredModel,
} from "../../src/controller/models/files/port.ts";
import type {
  ModelSources,
  ResolvedModel,
  SourceRequest,
} from "../../src/controller/models/hub/port.ts";

/** A model repository of the simulated hub. */
export interface FakeRepository {
  /** The commit of the repository; null if the model comes from a plain URL. */
  readonly commit: string | null;
  readonly bytes: number;
  /** The minimum memory of the model in bytes. */
  readonly memoryBytes: number;
  readonly quantization?: string;
}

/** The state that survives a restart of Berth: the hub, the disk, and the process of the assistant. */
export class FakeModelEnvironment {
  readonly repositories = new Map<string, FakeRepository>();
  /** The errors with which the next resolutions fail, oldest first. */
  readonly resolveErrors: BerthError[] = [];
  readonly downloadErrors: BerthError[] = [];
  readonly loadErrors: BerthError[] = [];
  /** The numbers of downloaded bytes and of all bytes of each model, by the model's key. */
  readonly disk = new Map<string, { done: number; readonly total: number }>();
  readonly damaged = new Set<string>();
  readonly resident = new Map<string, AssistantModel>();
  memoryBytesMax = 1_000;
  /** If true, model files that no Model uses are removed immediately, as if the disk budget were exceeded. */
  isShortOfDisk = false;
  isReachable = true;
  /** The state of the assistant that its supervisor reports. */
  daemonState: AssistantReport["state"] = "up";
  downloadMs = 10_000;
  loadMs = 500;
  readonly calls: string[] = [];
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Restarts the assistant, which loses its loaded models. */
  restartAssistant(): void {
    this.resident.clear();
  }

  /** Returns the bytes of memory that the model at `path` needs; undefined if there is no model at this path. */
  findMemoryBytes(path: string): number | undefined {
    for (const [source, repository] of this.repositories)
      if (path.includes(createResolvedModel(source, repository).key)) return repository.memoryBytes;
    return undefined;
  }

  /** Loads a model, and resolves when it is loaded. */
  async load(request: LoadModelRequest): Promise<void> {
    const failure = this.loadErrors.shift();
    const { id, path, contextTokens, sequences, deterministic } = request;
    const wanted = {
      contextTokens: contextTokens ?? null,
      sequences: sequences ?? null,
      deterministic: deterministic ?? null,
    };
    const there = this.resident.get(id);
    const isAlike = there?.path === path && deepEqual(there.wanted, wanted);
    if (isAlike && there.state === "resident") return;
    const model: AssistantModel = {
      id,
      aliases: request.aliases,
      path,
      sizeBytes: null,
      state: "loading",
      pinned: true,
      memoryBytes: null,
      wanted,
      contextTokens: null,
      sequences: null,
      loadedAt: null,
      error: null,
      recovering: false,
    };
    this.resident.set(id, model);
    await delay(this.#clock, this.loadMs, new AbortController().signal);
    if (this.resident.get(id) !== model)
      throw new BerthError("assistant_unreachable", "the connection was cut");
    const others = [...this.resident.values()].filter((one) => one.id !== id);
    const claimed = others.flatMap((one) => [one.id, ...one.aliases]);
    const taken = [...this.resident.values()].reduce((sum, one) => sum + (one.memoryBytes ?? 0), 0);
    const free = Math.min(
      this.memoryBytesMax - taken,
      request.memoryBytesMax ?? Number.POSITIVE_INFINITY,
    );
    const memoryBytes = this.findMemoryBytes(path);
    const problem =
      failure ??
      (request.aliases.some((alias) => claimed.includes(alias))
        ? new BerthError("engine_error", "another model has that name")
        : undefined) ??
      (memoryBytes === undefined ? unusableModelError() : undefined) ??
      ((memoryBytes ?? 0) > free
        ? new BerthError("insufficient_memory", "there is no room")
        : undefined);
    if (problem) {
      const { code, message } = problem;
      this.resident.set(id, { ...model, state: "failed", error: { code, message } });
      throw problem;
    }
    this.resident.set(id, {
      ...model,
      state: "resident",
      memoryBytes: memoryBytes ?? null,
      contextTokens: contextTokens ?? 4_096,
      sequences: sequences ?? 8,
      loadedAt: new Date(this.#clock.now()).toISOString(),
    });
  }
}

function unusableModelError(): BerthError {
  return new BerthError("model_unusable", "it is no GGUF file");
}

export function createResolvedModel(source: string, repository: FakeRepository): ResolvedModel {
  const name = `${source.split("/").at(-1)}.gguf`;
  return {
    key: createHash("sha256").update(`${source}@${repository.commit}`).digest("hex").slice(0, 16),
    commit: repository.commit,
    quantization: repository.quantization ?? null,
    files: [
      {
        name,
        sizeBytes: repository.bytes,
        sha256: createHash("sha256").update(`${source} ${repository.commit}`).digest("hex"),
        gitBlob: null,
        etag: null,
        location: { type: "url", url: `http://hub.test/${source}/${repository.commit}/${name}` },
      },
    ],
  };
}

export class FakeSources implements ModelSources {
  readonly #environment: FakeModelEnvironment;

  constructor(environment: FakeModelEnvironment) {
    this.#environment = environment;
  }

  async resolve(request: SourceRequest, signal: AbortSignal): Promise<ResolvedModel> {
    signal.throwIfAborted();
    this.#environment.calls.push(`resolve ${request.source} ${request.token ?? ""}`.trim());
    const failure = this.#environment.resolveErrors.shift();
    if (failure) throw failure;
    const repository = this.#environment.repositories.get(request.source);
    if (!repository)
      throw new BerthError("hub_not_found", `the hub has no repository ${request.source}`);
    return createResolvedModel(request.source, repository);
  }

  tokenFor(_: ResolvedModel, given: string | undefined): string | undefined {
    return given;
  }
}

export class FakeModelFiles implements ModelFiles {
  readonly #environment: FakeModelEnvironment;
  readonly #clock: Clock;

  constructor(environment: FakeModelEnvironment, clock: Clock) {
    this.#environment = environment;
    this.#clock = clock;
  }

  async find(model: ResolvedModel): Promise<StoredModel | undefined> {
    const there = this.#environment.disk.get(model.key);
    if (!there || there.done < there.total || this.#environment.damaged.has(model.key))
      return undefined;
    return createStoredModel(model);
  }

  async storedBytes(model: ResolvedModel): Promise<number> {
    return this.#environment.disk.get(model.key)?.done ?? 0;
  }

  /** Downloads the file in ten steps. A failure can interrupt the download between two steps. */
  async download(
    model: ResolvedModel,
    { onProgress }: { readonly onProgress: (progress: DownloadProgress) => void },
    signal: AbortSignal,
  ): Promise<StoredModel> {
    const { disk, downloadErrors, calls, damaged } = this.#environment;
    const total = model.files.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);
    const there = disk.get(model.key) ?? { done: 0, total };
    calls.push(`download ${model.key} from ${there.done}`);
    if (damaged.delete(model.key)) there.done = 0;
    disk.set(model.key, there);
    while (there.done < total) {
      await delay(this.#clock, this.#environment.downloadMs / 10, signal);
      const failure = downloadErrors.shift();
      if (failure) throw failure;
      there.done = Math.min(total, there.done + Math.ceil(total / 10));
      onProgress({ step: "downloading", doneBytes: there.done, totalBytes: total });
    }
    return createStoredModel(model);
  }

  async verify(model: ResolvedModel): Promise<StoredModel> {
    this.#environment.calls.push(`verify ${model.key}`);
    if (this.#environment.damaged.has(model.key))
      throw new BerthError("digest_mismatch", "the file is not what it should be");
    return createStoredModel(model);
  }

  async remove(key: string, keep: readonly string[]): Promise<void> {
    if (keep.includes(key)) return;
    this.#environment.calls.push(`remove ${key}`);
    this.#environment.disk.delete(key);
  }

  async collect(keep: readonly string[]): Promise<readonly CollectedFile[]> {
    if (!this.#environment.isShortOfDisk) return [];
    const isUnused = ([key, { done, total }]: [string, { done: number; total: number }]) =>
      done === total && !keep.includes(key);
    for (const [key] of [...this.#environment.disk].filter(isUnused))
      this.#environment.disk.delete(key);
    return [];
  }
}

function createStoredModel(model: ResolvedModel): StoredModel {
  return {
    path: `/models/${model.key}/${model.files[0]?.name}`,
    files: model.files.map(({ name, sizeBytes, sha256 }) => ({
      name,
      sizeBytes: sizeBytes ?? 0,
      sha256,
    })),
  };
}

export class FakeAssistant implements AssistantControl {
  readonly #environment: FakeModelEnvironment;
  readonly #clock: Clock;

  constructor(environment: FakeModelEnvironment, clock: Clock) {
    this.#environment = environment;
    this.#clock = clock;
  }

  /** Returns the state of the assistant's process without a call to the assistant, which may be unreachable. */
  report(): AssistantReport {
    const state = this.#environment.daemonState;
    return { state, url: "http://127.0.0.1:7777", pid: 1, starts: 1, message: null };
  }

  async state(): Promise<AssistantState> {
    this.#assertReachable();
    return {
      version: "0",
      pid: 1,
      engine: "fake",
      url: "http://127.0.0.1:7777",
      memoryBytesMax: this.#environment.memoryBytesMax,
      models: [...this.#environment.resident.values()],
    };
  }

  async inspect(file: { readonly path: string }): Promise<InspectedModel> {
    this.#assertReachable();
    const least = this.#environment.findMemoryBytes(file.path);
    if (least === undefined) throw unusableModelError();
    return {
      architecture: "llama",
      name: null,
      parameters: 1_000,
      quantization: "Q4_K_M",
      contextTokens: 4_096,
      kind: "chat",
      memoryBytes: { wanted: least * 2, least },
    };
  }

  /** Loads a model; the load continues in the assistant's process if the caller is aborted. */
  async load(request: LoadModelRequest, signal: AbortSignal): Promise<void> {
    this.#assertReachable();
    this.#environment.calls.push(`load ${request.id}`);
    await raceWithAbort(this.#environment.load(request), signal);
  }

  async unload(id: string, signal: AbortSignal): Promise<void> {
    this.#assertReachable();
    this.#environment.calls.push(`unload ${id}`);
    await delay(this.#clock, 100, signal);
    this.#environment.resident.delete(id);
  }

  async setContainerListeners(): Promise<void> {
    this.#assertReachable();
  }

  #assertReachable(): void {
    if (!this.#environment.isReachable)
      throw new BerthError("assistant_unreachable", "the assistant does not answer");
  }
}
