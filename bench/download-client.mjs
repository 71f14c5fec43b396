// Downloads one file as Berth does, in a process of its own as curl is one: `URL SIZE SHA256 DIR PARTS`. It is the
// built program that is measured. Prints the milliseconds that the call took: a server has started Node already.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemClock } from "../dist/base/clock.js";
import { silentLogger } from "../dist/base/logger.js";
import { ModelDisk } from "../dist/controller/models/files/model-disk.js";

const [url, size, sha256, dir, parts] = process.argv.slice(2);
const disk = new ModelDisk({
  dir,
  clock: systemClock,
  logger: silentLogger,
  budgetBytes: undefined,
  bandwidthBytesPerSecond: undefined,
  version: "bench",
  ...(parts === undefined ? {} : { partsMax: Number(parts) }),
});
const file = {
  name: "file.gguf",
  sizeBytes: Number(size),
  sha256,
  gitBlob: null,
  etag: null,
  location: { type: "url", url },
};
const model = { key: "bench", commit: null, quantization: null, files: [file] };
// The clock's timers do not keep a process alive.
const alive = setInterval(() => {}, 60_000);
const loop = monitorEventLoopDelay({ resolution: 5 });
loop.enable();
const start = performance.now();
await disk.download(
  model,
  { token: undefined, onProgress: () => {} },
  new AbortController().signal,
);
const ms = performance.now() - start;
loop.disable();
process.stdout.write(`${JSON.stringify({ ms, loopP99Ms: loop.percentile(99) / 1e6 })}\n`);
clearInterval(alive);
await disk[Symbol.asyncDispose]();
