import { BerthError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/logger.ts";
import type { ResolvedFile, ResolvedModel } from "../hub/port.ts";
import type { Blobs } from "./blobs.ts";
import { digestMismatchError } from "./download-errors.ts";
import type { LocalFiles } from "./local-files.ts";
import type { StoredModel } from "./port.ts";
import type { StoredFile, StoredFiles } from "./stored-files.ts";
import type { Views } from "./views.ts";

export interface ModelVerifierDependencies {
  readonly blobs: Blobs;
  readonly views: Views;
  readonly local: LocalFiles;
  readonly stored: StoredFiles;
  readonly logger: Logger;
}

/** Verifies the stored models: reads all their files and compares the digests. */
export class ModelVerifier {
  readonly #dependencies: ModelVerifierDependencies;

  constructor(dependencies: ModelVerifierDependencies) {
    this.#dependencies = dependencies;
  }

  /** Reads every file even if one of them is damaged, so that the next download replaces all damaged files. */
  async verify(model: ResolvedModel, signal: AbortSignal): Promise<StoredModel> {
    const found: StoredFile[] = [];
    let failure: unknown;
    for (const file of model.files) {
      try {
        found.push(await this.#verifyFile(model.key, file, signal));
      } catch (error) {
        signal.throwIfAborted();
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
    return this.#dependencies.stored.describe(model, found);
  }

  async #verifyFile(key: string, file: ResolvedFile, signal: AbortSignal): Promise<StoredFile> {
    if (file.location.type === "local") {
      const sizeBytes = await this.#dependencies.local.check(
        file,
        file.location.path,
        "always",
        () => {},
        signal,
      );
      return { sizeBytes, sha256: file.sha256 };
    }
    const sha256 = await this.#dependencies.views.readDigest(key, file.name);
    const verified = sha256 && (await this.#dependencies.blobs.verify(sha256, () => {}, signal));
    if (!sha256 || !verified)
      throw new BerthError("not_found", `${file.name} is not on the disk`, {
        hint: "download the model",
      });
    if (!verified.isRight) {
      this.#dependencies.logger.warn({ sha256 }, "a file of a model is damaged; it was removed");
      throw digestMismatchError(file.name, sha256, verified.got);
    }
    return { sizeBytes: verified.sizeBytes, sha256 };
  }
}
