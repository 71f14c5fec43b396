import { systemClock } from "../../src/base/clock.ts";
import { BerthError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { ModelDisk } from "../../src/controller/models/files/model-disk.ts";

/**
 * A separate process that downloads one file, for tests that kill it: `DIR URL SIZE SHA256 [BYTES_PER_SECOND]`.
 * Prints `at BYTES` during the download, and `done PATH` or `failed CODE MESSAGE` at the end.
 */
const [dir = "", url = "", size, sha256 = "", bandwidth] = process.argv.slice(2);
const say = (line: string) => void process.stdout.write(`${line}\n`);

const disk = new ModelDisk({
  assertUsable: () => Promise.resolve(),
  dir,
  clock: systemClock,
  logger: silentLogger,
  budgetBytes: undefined,
  bandwidthBytesPerSecond: bandwidth === undefined ? undefined : Number(bandwidth),
  version: "1",
  limits: { stallMs: 30_000, retryMs: 10, retriesMax: 3 },
});
// This timer keeps the process running, which the timers of Berth's clock do not do.
const alive = setInterval(() => {}, 60_000);
try {
  const stored = await disk.download(
    {
      key: "key",
      commit: null,
      quantization: null,
      files: [
        {
          name: "m.gguf",
          sizeBytes: Number(size),
          sha256,
          gitBlob: null,
          etag: null,
          location: { type: "url", url },
        },
      ],
    },
    { token: undefined, onProgress: ({ doneBytes }) => say(`at ${doneBytes}`) },
    new AbortController().signal,
  );
  say(`done ${stored.path}`);
} catch (error) {
  if (!(error instanceof BerthError)) throw error;
  say(`failed ${error.code} ${error.message}`);
}
clearInterval(alive);
await disk[Symbol.asyncDispose]();
