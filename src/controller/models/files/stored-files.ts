import type { ResolvedFile, ResolvedModel } from "../hub/port.ts";
import type { Blobs } from "./blobs.ts";
import type { LocalFiles } from "./local-files.ts";
import type { StoredModel } from "./port.ts";
import type { Views } from "./views.ts";

export interface StoredFile {
  readonly sizeBytes: number;
  readonly sha256: string | null;
}

/** The complete, verified and unchanged files of models. Never reads contents. */
export class StoredFiles {
  readonly #blobs: Blobs;
  readonly #views: Views;
  readonly #local: LocalFiles;

  constructor(dependencies: {
    readonly blobs: Blobs;
    readonly views: Views;
    readonly local: LocalFiles;
  }) {
    this.#blobs = dependencies.blobs;
    this.#views = dependencies.views;
    this.#local = dependencies.local;
  }

  /**
   * Returns the stored files of a model; undefined if a file is missing, or differs from the resolved size or sha256.
   */
  async find(model: ResolvedModel): Promise<StoredModel | undefined> {
    const found: StoredFile[] = [];
    for (const file of model.files) {
      const stored = await this.findFile(model.key, file);
      if (!stored) return undefined;
      found.push(stored);
    }
    return this.describe(model, found);
  }

  async findFile(key: string, file: ResolvedFile): Promise<StoredFile | undefined> {
    if (file.location.type === "local") {
      const sizeBytes = await this.#local.find(file, file.location.path);
      return sizeBytes === undefined ? undefined : { sizeBytes, sha256: file.sha256 };
    }
    const sha256 = await this.#views.readDigest(key, file.name);
    if (sha256 === undefined || (file.sha256 !== null && file.sha256 !== sha256)) return undefined;
    const sizeBytes = await this.#blobs.find(sha256);
    if (sizeBytes === undefined) return undefined;
    if (file.sizeBytes !== null && file.sizeBytes !== sizeBytes) return undefined;
    return { sizeBytes, sha256 };
  }

  describe(model: ResolvedModel, stored: readonly StoredFile[]): StoredModel {
    const [first] = model.files;
    if (!first) throw new Error("a model has no files");
    const { location } = first;
    return {
      path: location.type === "local" ? location.path : this.#views.getPath(model.key, first.name),
      files: model.files.map(({ name }, index) => {
        const { sizeBytes, sha256 } = stored[index] ?? { sizeBytes: 0, sha256: null };
        return { name, sizeBytes, sha256 };
      }),
    };
  }
}
