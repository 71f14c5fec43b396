import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLogger } from "../../../src/base/logger.ts";
import { ModelDisk } from "../../../src/controller/models/files/model-disk.ts";
import type { PublishedFile } from "./catalog.ts";

/** The limits are lower than a server's, because the tests can fetch the models from another source too. */
const LIMITS = { stallMs: 30_000, retryMs: 500, retriesMax: 2 };

/**
 * Downloads the file with Berth's own downloader, which resumes a partial download and verifies the digest. Returns the
 * path of a copy that the caller may move. Throws a BerthError if the hub does not have the file.
 */
export async function downloadFromHub(
  file: PublishedFile,
  options: {
    readonly dir: string;
    readonly hubEndpoint: string;
    readonly hubToken: string | undefined;
  },
): Promise<string> {
  await using disk = new ModelDisk({
    dir: join(options.dir, "hub"),
    clock: systemClock,
    logger: silentLogger,
    budgetBytes: undefined,
    bandwidthBytesPerSecond: undefined,
    version: "tests",
    limits: LIMITS,
    // The vocabulary of an embedder is not a GGUF file.
    assertUsable: () => Promise.resolve(),
  });
  const { repository, revision, path } = file.hub;
  const url = [options.hubEndpoint.replace(/\/+$/, ""), repository, "resolve", revision, path];
  // Timers of Berth's clock do not keep a process running.
  const alive = setInterval(() => {}, 60_000);
  try {
    const stored = await disk.download(
      {
        key: file.sha256,
        commit: null,
        quantization: null,
        files: [
          {
            name: file.name,
            sizeBytes: file.sizeBytes,
            sha256: file.sha256,
            gitBlob: null,
            etag: null,
            location: { type: "url", url: url.join("/") },
          },
        ],
      },
      { token: options.hubToken, onProgress: () => {} },
      new AbortController().signal,
    );
    const copy = join(options.dir, "hub", "copy");
    await copyFile(stored.path, copy);
    return copy;
  } finally {
    clearInterval(alive);
  }
}
