import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { Mutex, Semaphore } from "../../../base/mutex.ts";
import { assertGgufFile } from "../gguf-file.ts";
import type { ResolvedModel } from "../hub/port.ts";
import { BandwidthLimiter } from "./bandwidth-limiter.ts";
import { Blobs } from "./blobs.ts";
import { DiskSpace, readFreeBytes } from "./disk-space.ts";
import { defaultRetryLimits, type RetryLimits } from "./download-backoff.ts";
import { toDiskError } from "./download-errors.ts";
import { Downloader } from "./downloader.ts";
import { LocalFiles } from "./local-files.ts";
import { ModelFileCollector } from "./model-file-collector.ts";
import { ModelVerifier } from "./model-verifier.ts";
import { Partials } from "./partials.ts";
import type { CollectedFile, DownloadProgress, ModelFiles, StoredModel } from "./port.ts";
import { StoredFiles } from "./stored-files.ts";
import { Views } from "./views.ts";

/**
 * The default of the maximum number of connections of one download, measured with `bench/download.ts`. More connections
 * only help if the server limits the rate of each one.
 */
const PARTS_MAX = 4;
/**
 * The maximum number of concurrent writes. Writes occupy the thread pool, which has four threads for all of Berth.
 */
const WRITES_MAX = 2;

export interface ModelDiskOptions {
  /** DATA_DIR/models. The store's lock ensures that no other process writes into this folder. */
  readonly dir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The disk budget of all models, which `collect` enforces; undefined for no limit. */
  readonly budgetBytes: number | undefined;
  /** The bandwidth limit of all downloads together; undefined for no limit. */
  readonly bandwidthBytesPerSecond: number | undefined;
  /** The version of Berth, which servers get in the user agent. */
  readonly version: string;
  /** The maximum number of connections of one download. Each connection downloads one part of the file at a time. */
  readonly partsMax?: number;
  readonly freeBytes?: () => Promise<number>;
  readonly limits?: RetryLimits;
  /**
   * Checks a downloaded file. By default a file has to be a GGUF file. Only tests replace this function, because their
   * files are not models.
   */
  readonly assertUsable?: (path: string, name: string) => Promise<void>;
}

/**
 * Stores models on the disk: verified files and their verification notes as `blobs/<sha256>`, incomplete downloads in
 * `partial/<content>`, links to files under the names that the models use as `views/<key>/<name>`, and the verification
 * notes of files that are used in place in `local/`.
 */
export class ModelDisk implements ModelFiles, AsyncDisposable {
  readonly #folders: readonly string[];
  readonly #closing = new AbortController();
  readonly #stored: StoredFiles;
  readonly #downloader: Downloader;
  readonly #verifier: ModelVerifier;
  readonly #collector: ModelFileCollector;

  constructor(options: ModelDiskOptions) {
    const { dir, clock, logger } = options;
    const blobsDir = join(dir, "blobs");
    const partialDir = join(dir, "partial");
    const viewsDir = join(dir, "views");
    const localDir = join(dir, "local");
    this.#folders = [dir, blobsDir, partialDir, viewsDir, localDir];
    const blobs = new Blobs(blobsDir, clock);
    const partials = new Partials(partialDir);
    const views = new Views(viewsDir, blobsDir);
    const local = new LocalFiles(localDir, clock);
    // A lock for two operations that exclude each other: storing a downloaded file, and removing unused files.
    const linking = new Mutex();
    this.#stored = new StoredFiles({ blobs, views, local });
    this.#downloader = new Downloader({
      blobs,
      partials,
      views,
      local,
      stored: this.#stored,
      linking,
      space: new DiskSpace(options.freeBytes ?? (() => readFreeBytes(dir))),
      userAgent: `berth/${options.version}`,
      assertUsable: options.assertUsable ?? assertGgufFile,
      transfer: {
        clock,
        logger,
        bandwidth: new BandwidthLimiter(clock, options.bandwidthBytesPerSecond),
        writes: new Semaphore(WRITES_MAX),
        partsMax: options.partsMax ?? PARTS_MAX,
        limits: options.limits ?? defaultRetryLimits,
      },
    });
    this.#verifier = new ModelVerifier({
      blobs,
      views,
      local,
      stored: this.#stored,
      logger,
    });
    this.#collector = new ModelFileCollector({
      clock,
      logger,
      blobs,
      partials,
      views,
      linking,
      budgetBytes: options.budgetBytes,
      isActive: (content) => this.#downloader.isActive(content),
      activeKeys: () => this.#downloader.activeKeys,
    });
  }

  find(model: ResolvedModel): Promise<StoredModel | undefined> {
    return this.#stored.find(model);
  }

  storedBytes(model: ResolvedModel): Promise<number> {
    return this.#downloader.storedBytes(model);
  }

  async download(
    model: ResolvedModel,
    options: {
      readonly token: string | undefined;
      readonly onProgress: (progress: DownloadProgress) => void;
    },
    signal: AbortSignal,
  ): Promise<StoredModel> {
    const ended = AbortSignal.any([signal, this.#closing.signal]);
    return this.#withFolders(() => this.#downloader.download(model, options, ended));
  }

  async verify(model: ResolvedModel, signal: AbortSignal): Promise<StoredModel> {
    const ended = AbortSignal.any([signal, this.#closing.signal]);
    return this.#withFolders(() => this.#verifier.verify(model, ended));
  }

  async remove(key: string, keep: readonly string[]): Promise<void> {
    await this.#withFolders(() => this.#collector.remove(key, keep));
  }

  async collect(keep: readonly string[]): Promise<readonly CollectedFile[]> {
    return this.#withFolders(() => this.#collector.collect(keep));
  }

  /** Aborts every download; the downloaded bytes are kept. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new DOMException("Berth is ending", "AbortError"));
    await this.#downloader[Symbol.asyncDispose]();
  }

  async #withFolders<T>(work: () => Promise<T>): Promise<T> {
    try {
      for (const folder of this.#folders) await mkdir(folder, { recursive: true, mode: 0o700 });
      return await work();
    } catch (error) {
      throw toDiskError(error);
    }
  }
}
