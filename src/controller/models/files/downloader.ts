import { join } from "node:path";
import type { Mutex } from "../../../base/mutex.ts";
import type { ResolvedFile, ResolvedModel } from "../hub/port.ts";
import type { Blobs } from "./blobs.ts";
import { CountedSet } from "./counted-set.ts";
import type { DiskSpace } from "./disk-space.ts";
import { digestMismatchError } from "./download-errors.ts";
import { DownloadSource } from "./download-source.ts";
import { FileTransfer, type TransferDependencies, type TransferResult } from "./file-transfer.ts";
import type { LocalFiles } from "./local-files.ts";
import { getContentId, type Partials } from "./partials.ts";
import type { DownloadProgress, StoredModel } from "./port.ts";
import { ProgressReporter } from "./progress-reporter.ts";
import { SharedTransfers } from "./shared-transfers.ts";
import type { StoredFile, StoredFiles } from "./stored-files.ts";
import type { Views } from "./views.ts";

export interface DownloaderDependencies {
  readonly blobs: Blobs;
  readonly partials: Partials;
  readonly views: Views;
  readonly local: LocalFiles;
  readonly stored: StoredFiles;
  readonly linking: Mutex;
  readonly space: DiskSpace;
  readonly userAgent: string;
  /** Called with the path and the name of a complete file; throws `model_unusable` if the file is not a model. */
  readonly assertUsable: (path: string, name: string) => Promise<void>;
  readonly transfer: TransferDependencies;
}

/** The progress of one file in a download. */
interface FileState {
  readonly file: ResolvedFile;
  stored: StoredFile | undefined;
  /** Bytes of the file that were on the disk before the download; 0 if these bytes turned out to be unusable. */
  foundBytes: number;
  /** Bytes verified so far; undefined while the file is not being verified. */
  verifiedBytes: number | undefined;
}

/** Downloads models, file by file. */
export class Downloader implements AsyncDisposable {
  readonly #dependencies: DownloaderDependencies;
  readonly #transfers = new SharedTransfers();
  readonly #activeContents = new CountedSet();
  readonly #activeKeys = new CountedSet();

  constructor(dependencies: DownloaderDependencies) {
    this.#dependencies = dependencies;
  }

  /** True while the file is being downloaded. Its partial file must not be removed then. */
  isActive(content: string): boolean {
    return this.#activeContents.has(content);
  }

  /** Keys of the models that are being downloaded. */
  get activeKeys(): readonly string[] {
    return this.#activeKeys.members;
  }

  async storedBytes(model: ResolvedModel): Promise<number> {
    let bytes = 0;
    for (const file of model.files) bytes += await this.#countStoredBytes(model.key, file);
    return bytes;
  }

  async download(
    model: ResolvedModel,
    options: {
      readonly token: string | undefined;
      readonly onProgress: (progress: DownloadProgress) => void;
    },
    signal: AbortSignal,
  ): Promise<StoredModel> {
    signal.throwIfAborted();
    const states: FileState[] = [];
    using active = new DisposableList();
    active.add(this.#activeKeys.add(model.key));
    for (const file of model.files) {
      const { location } = file;
      // Throws if a file name cannot be used, before anything is downloaded.
      if (location.type === "url") this.#dependencies.views.getPath(model.key, file.name);
      const stored = await this.#dependencies.stored.findFile(model.key, file);
      const foundBytes = stored ? 0 : await this.#countStoredBytes(model.key, file);
      const state: FileState = { file, stored, foundBytes, verifiedBytes: undefined };
      states.push(state);
      if (location.type === "local") continue;
      const content = getContentId(file, location.url);
      active.add(this.#activeContents.add(content));
      active.add(
        this.#dependencies.space.reserve(content, () => this.#countMissingBytes(content, state)),
      );
    }
    await this.#dependencies.space.check();
    active.add(
      new ProgressReporter(
        this.#dependencies.transfer.clock,
        () => this.#computeProgress(states),
        options.onProgress,
      ),
    );
    for (const state of states) {
      state.stored ??= await this.#fetchFile(model.key, state, options.token, signal);
      state.verifiedBytes = undefined;
    }
    return this.#dependencies.stored.describe(
      model,
      states.map(({ stored }) => stored ?? { sizeBytes: 0, sha256: null }),
    );
  }

  async #fetchFile(
    key: string,
    state: FileState,
    token: string | undefined,
    signal: AbortSignal,
  ): Promise<StoredFile> {
    const { file } = state;
    const { blobs, linking, local, views } = this.#dependencies;
    const onRead = (bytes: number) => {
      state.verifiedBytes = bytes;
    };
    if (file.location.type === "local") {
      const { path } = file.location;
      const sizeBytes = await local.check(file, path, "unless-known", onRead, signal);
      return { sizeBytes, sha256: file.sha256 };
    }
    const { url } = file.location;
    const content = getContentId(file, url);
    const known = file.sha256 ?? (await views.readDigest(key, file.name));
    if (known !== undefined) {
      const sizeBytes = await this.#findExisting(known, onRead, signal);
      if (sizeBytes !== undefined && (file.sizeBytes === null || file.sizeBytes === sizeBytes)) {
        await this.#dependencies.assertUsable(blobs.getPath(known), file.name);
        await linking.runExclusive(async () => {
          // If Berth was killed right after it stored the complete file, the partial file still exists, and is removed
          // now.
          if (!this.#transfers.get(content)) await this.#dependencies.partials.remove(content);
          await views.link(key, file.name, known);
        });
        return { sizeBytes, sha256: known };
      }
      state.verifiedBytes = undefined;
      state.foundBytes = 0;
    }
    const result = await this.#transfers.joinOrStart(
      content,
      key,
      () => this.#createTransfer(key, file, url, content, token),
      signal,
    );
    state.verifiedBytes = result.sizeBytes;
    return linking.runExclusive(async () => {
      const { sha256 } = result.digests;
      // Another model that waited for the same file may have stored it already. The file is then not stored again.
      if ((await blobs.find(sha256)) === undefined) await this.#adopt(file, content, result);
      else if (!this.#transfers.get(content)) await this.#dependencies.partials.remove(content);
      // If `assertUsable` throws, no link to the stored file is made. The file is removed with other unused files when
      // space is needed.
      await this.#dependencies.assertUsable(blobs.getPath(sha256), file.name);
      await views.link(key, file.name, sha256);
      return { sizeBytes: result.sizeBytes, sha256 };
    });
  }

  /** Returns the size of a stored file. A file that was changed or touched after its verification is verified first. */
  async #findExisting(
    sha256: string,
    onRead: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { blobs, transfer } = this.#dependencies;
    const found = await blobs.find(sha256);
    if (found !== undefined) return found;
    const verified = await blobs.verify(sha256, onRead, signal);
    if (verified?.isRight) return verified.sizeBytes;
    if (verified)
      transfer.logger.warn({ sha256 }, "a file of a model is damaged; it is downloaded again");
    return undefined;
  }

  #createTransfer(
    key: string,
    file: ResolvedFile,
    url: string,
    content: string,
    token: string | undefined,
  ): { readonly transfer: FileTransfer; readonly dispose: () => void } {
    const { partials, space, transfer: dependencies, userAgent } = this.#dependencies;
    const connectionsMax = dependencies.partsMax;
    const source = new DownloadSource({ url, token, userAgent, connectionsMax });
    const transfer = new FileTransfer({
      file,
      url,
      source,
      dir: partials.getPath(content),
      key,
      checkSpace: () => space.check(),
      dependencies,
    });
    return { transfer, dispose: () => source[Symbol.dispose]() };
  }

  /** Stores a downloaded file under its digest; discards it if the digest is not the expected one. */
  async #adopt(file: ResolvedFile, content: string, { digests }: TransferResult): Promise<void> {
    const { blobs, partials } = this.#dependencies;
    const [expected, got] =
      file.sha256 === null && file.gitBlob !== null
        ? [file.gitBlob, digests.gitBlob ?? "another"]
        : [file.sha256 ?? digests.sha256, digests.sha256];
    if (expected !== got) {
      await partials.remove(content);
      throw digestMismatchError(file.name, expected, got);
    }
    await blobs.adopt(join(partials.getPath(content), "data"), digests.sha256);
    await partials.remove(content);
  }

  async #countStoredBytes(key: string, file: ResolvedFile): Promise<number> {
    const { blobs, partials, stored } = this.#dependencies;
    const found = await stored.findFile(key, file);
    if (found) return found.sizeBytes;
    if (file.location.type === "local") return 0;
    const content = getContentId(file, file.location.url);
    const unverifiedBytes = file.sha256 === null ? undefined : await blobs.readSize(file.sha256);
    return (
      unverifiedBytes ??
      this.#transfers.get(content)?.doneBytes ??
      (await partials.countBytes(content))
    );
  }

  #countMissingBytes(content: string, { file, stored, foundBytes }: FileState): number {
    const transfer = this.#transfers.get(content);
    if (stored) return 0;
    return transfer?.missingBytes ?? Math.max(0, (file.sizeBytes ?? 0) - foundBytes);
  }

  #computeProgress(states: readonly FileState[]): DownloadProgress {
    let step: DownloadProgress["step"] = "downloading";
    let doneBytes = 0;
    let totalBytes: number | null = 0;
    for (const { file, stored, foundBytes, verifiedBytes } of states) {
      const transfer =
        stored || file.location.type === "local"
          ? undefined
          : this.#transfers.get(getContentId(file, file.location.url));
      const verified = stored ? undefined : (verifiedBytes ?? transfer?.verifiedBytes);
      if (verified !== undefined) step = "verifying";
      doneBytes += stored?.sizeBytes ?? verified ?? transfer?.doneBytes ?? foundBytes;
      const sizeBytes: number | null =
        stored?.sizeBytes ?? file.sizeBytes ?? transfer?.totalBytes ?? null;
      totalBytes = totalBytes === null || sizeBytes === null ? null : totalBytes + sizeBytes;
    }
    return { step, doneBytes, totalBytes };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transfers[Symbol.asyncDispose]();
  }
}

/** Disposes of several resources. Node 22 lacks DisposableStack. */
class DisposableList implements Disposable {
  readonly #held: Disposable[] = [];

  add(held: Disposable): void {
    this.#held.push(held);
  }

  [Symbol.dispose](): void {
    for (const held of this.#held) held[Symbol.dispose]();
  }
}
