import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { ModelDisk, type ModelDiskOptions } from "../../src/controller/models/files/model-disk.ts";
import type { DownloadProgress } from "../../src/controller/models/files/port.ts";
import type { ResolvedFile, ResolvedModel } from "../../src/controller/models/hub/port.ts";
import { Hub, type HubRequest } from "../support/hub/hub.ts";

export const MIB = 2 ** 20;

/** Short delays, so that retries do not take minutes. */
export const quickLimits = { stallMs: 30_000, retryMs: 10, retriesMax: 5 };

const REPOSITORY = "org/model";

/** A hub with one repository, and a disk for models. */
export class DownloadHarness implements AsyncDisposable {
  readonly hub: Hub;
  /** The parent folder of `dir`, for other files of a test. */
  readonly root: string;
  readonly dir: string;
  readonly #disks: ModelDisk[] = [];

  static async open(files: Readonly<Record<string, Buffer>>): Promise<DownloadHarness> {
    const hub = await Hub.open();
    await hub.addRepository({ id: REPOSITORY, files });
    return new DownloadHarness(hub, await mkdtemp(join(tmpdir(), "berth-models-")));
  }

  private constructor(hub: Hub, root: string) {
    this.hub = hub;
    this.root = root;
    this.dir = join(root, "models");
  }

  /** Opens a `ModelDisk` on `dir`. A second call simulates a restart. */
  disk(options: Partial<ModelDiskOptions> = {}): ModelDisk {
    const disk = new ModelDisk({
      assertUsable: () => Promise.resolve(),
      dir: this.dir,
      clock: systemClock,
      logger: silentLogger,
      budgetBytes: undefined,
      bandwidthBytesPerSecond: undefined,
      version: "1.2.3",
      limits: quickLimits,
      ...options,
    });
    this.#disks.push(disk);
    return disk;
  }

  /** Returns a resolved model whose files are in the hub's repository. */
  model(key: string, contents: Readonly<Record<string, Buffer>>): ResolvedModel {
    return {
      key,
      commit: null,
      quantization: null,
      files: Object.entries(contents).map(([name, bytes]) => ({
        name,
        sizeBytes: bytes.length,
        sha256: hashSha256(bytes),
        gitBlob: null,
        etag: null,
        location: { type: "url", url: this.buildUrl(name) },
      })),
    };
  }

  buildUrl(name: string): string {
    return `${this.hub.url}/${REPOSITORY}/resolve/main/${name}`;
  }

  /** The requests to the hub and its CDN whose responses have a body. */
  get transfers(): HubRequest[] {
    return this.hub.requests.filter(({ bodyBytes }) => bodyBytes > 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const disk of this.#disks) await disk[Symbol.asyncDispose]();
    await this.hub[Symbol.asyncDispose]();
    await rm(this.root, { recursive: true, force: true });
  }
}

export function createRandomBytes(count: number): Buffer {
  return randomBytes(count);
}

export function hashSha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Returns a copy of the model in which the fields of `change` replace those of each file. */
export function withFile(model: ResolvedModel, change: Partial<ResolvedFile>): ResolvedModel {
  return { ...model, files: model.files.map((file) => ({ ...file, ...change })) };
}

/** Returns options of a download that record its progress. */
export function recordProgress(token?: string): {
  readonly token: string | undefined;
  readonly told: DownloadProgress[];
  readonly onProgress: (progress: DownloadProgress) => void;
} {
  const told: DownloadProgress[] = [];
  return { token, told, onProgress: (progress) => told.push(progress) };
}

export const neverAborted: AbortSignal = new AbortController().signal;

export function readStored(path: string): Promise<Buffer> {
  return readFile(path);
}
