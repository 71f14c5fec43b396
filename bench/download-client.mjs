// Downloads one file with Berth's built code, in its own process as curl does. The arguments are WARM URL SIZE SHA256
// DIR PARTS. The file WARM is downloaded first as a warm-up. Prints the duration of the download of URL in
// milliseconds.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemClock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/logger.ts";
import { ModelDisk } from "../src/controller/models/files/model-disk.ts";

const [warm, url, size, sha256, dir, parts] = process.argv.slice(2);
const diskAt = (folder) =>
  new ModelDisk({
    assertUsable: () => Promise.resolve(),
    dir: folder,
    clock: systemClock,
    logger: silentLogger,
    budgetBytes: undefined,
    bandwidthBytesPerSecond: undefined,
    version: "bench",
    ...(parts === undefined ? {} : { partsMax: Number(parts) }),
  });
const model = (from, sizeBytes, digest) => ({
  key: "bench",
  commit: null,
  quantization: null,
  files: [
    {
      name: "file.gguf",
      sizeBytes,
      sha256: digest,
      gitBlob: null,
      etag: null,
      location: { type: "url", url: from },
    },
  ],
});
const download = (disk, wanted) =>
  disk.download(wanted, { token: undefined, onProgress: () => {} }, new AbortController().signal);
// This timer keeps the process running, which the timers of Berth's clock do not do.
const alive = setInterval(() => {}, 60_000);
for (let round = 0; round < 3; round += 1) {
  const disk = diskAt(`${dir}/warm-${round}`);
  await download(disk, model(warm, null, null));
  await disk[Symbol.asyncDispose]();
}
const disk = diskAt(dir);
const loop = monitorEventLoopDelay({ resolution: 5 });
loop.enable();
const start = performance.now();
await download(disk, model(url, Number(size), sha256));
const ms = performance.now() - start;
loop.disable();
process.stdout.write(`${JSON.stringify({ ms, loopP99Ms: loop.percentile(99) / 1e6 })}\n`);
clearInterval(alive);
await disk[Symbol.asyncDispose]();
