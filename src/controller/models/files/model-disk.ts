import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { Semaphore } from "../../../base/mutex.ts";
import type { ResolvedModel } from "../hub/port.ts";
import { BandwidthLimiter } from "./bandwidth-limiter.ts";
import { Blobs } from "./blobs.ts";
import { DiskSpace, readFreeBytes } from "./disk-space.ts";
import { defaultRetryLimits, type RetryLimits } from "./download-backoff.ts";
import { toDiskError } from "./download-errors.ts";
import { Downloader } from "./downloader.ts";
import { Hasher } from "./hasher.ts";
import { LocalFiles } from "./local-files.ts";
import { ModelFileCollector } from "./model-file-collector.ts";
import { ModelVerifier } from "./model-verifier.ts";
import { Partials } from "./partials.ts";
import type { CollectedFile, DownloadProgress, ModelFiles, StoredModel } from "./port.ts";
import { StoredFiles } from "./stored-files.ts";
import { Views } from "./views.ts";

/** Measured: see the downloads in `bench/download.ts`. More than this only helps where each connection is slowed. */
const PARTS_MAX = 4;
/** Writes wait in the thread pool, which has four threads for all of Berth. */
const WRITES_MAX = 2;

export interface ModelDiskOptions {
  /** DATA_DIR/models. No one else writes there: the store's lock sees to it. */
  readonly dir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** What models may take before `collect` removes some; undefined: as much as there is. */
  readonly budgetBytes: number | undefined;
  /** Of all downloads together; undefined: as fast as it comes. */
  readonly bandwidthBytesPerSecond: number | undefined;
  /** Told to servers. */
  readonly version: string;
  /** Connections of one download. */
  readonly partsMax?: number;
  readonly freeBytes?: () => Promise<number>;
  readonly limits?: RetryLimits;
}

/**
 * Models on the disk: `blobs/<sha256>` with a note of how each stood when it was verified, `partial/<content>`
 * while they come, `views/<key>/<name>` with links under the names that models know, `local/` with notes of
 * files that stay where they are.
 */
export class ModelDisk implements ModelFiles, AsyncDisposable {
  readonly #folders: readonly string[];
  readonly #hasher = new Hasher();
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
    const blobs = new Blobs(blobsDir, clock, this.#hasher);
    const partials = new Partials(partialDir);
    const views = new Views(viewsDir, blobsDir);
    const local = new LocalFiles(localDir, clock, this.#hasher);
    // Linking what has come and removing what nobody has never see each other half done.
    const turns = new Semaphore(1);
    this.#stored = new StoredFiles({ blobs, views, local });
    this.#downloader = new Downloader({
      clock,
      logger,
      blobs,
      partials,
      views,
      local,
      stored: this.#stored,
      turns,
      space: new DiskSpace(options.freeBytes ?? (() => readFreeBytes(dir))),
      userAgent: `berth/${options.version}`,
      tools: {
        clock,
        logger,
        bandwidth: new BandwidthLimiter(clock, options.bandwidthBytesPerSecond),
        hasher: this.#hasher,
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
      turns,
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
    return this.#withFolders(() => this.#downloader.download(model, options, signal));
  }

  async verify(model: ResolvedModel, signal: AbortSignal): Promise<StoredModel> {
    return this.#withFolders(() => this.#verifier.verify(model, signal));
  }

  async remove(key: string, keep: readonly string[]): Promise<void> {
    await this.#withFolders(() => this.#collector.remove(key, keep));
  }

  async collect(keep: readonly string[]): Promise<readonly CollectedFile[]> {
    return this.#withFolders(() => this.#collector.collect(keep));
  }

  /** Ends every download; what has come is kept. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#downloader[Symbol.asyncDispose]();
    await this.#hasher[Symbol.asyncDispose]();
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
