import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { withServer } from "./create.ts";
import type { BenchEngine } from "./engine.ts";
import { type Figure, median } from "./report.ts";
import type { BenchServer } from "./server.ts";

const SAVE_EVERY_MS = 100;
const READERS = 5;
const SAMPLE_EVERY_MS = 5_000;
/** The longest time that a full garbage collection may take. */
const COLLECTED_AFTER_MS = 500;
const PARTS = 5;
const collector = new URL("../test/support/collect-garbage.mjs", import.meta.url).href;

/**
 * One sample, in megabytes: the memory of objects and buffers after a garbage collection, and that of the whole
 * process.
 */
interface Sample {
  readonly used: number;
  readonly resident: number;
}

/**
 * Saves the spec file of one app with a changed environment every 100 ms while five clients list the apps. Rejects if
 * the server exits, if a request fails, or if the app does not become Ready afterwards. The figure is the memory in the
 * last fifth of the time divided by that in the second fifth. The first fifth is ignored, because tables and code grow
 * to their working size.
 */
export async function benchSoak(engine: BenchEngine, seconds: number): Promise<Figure> {
  const work = await withServer(
    engine,
    async (server) => {
      const done = await runSoak(server, engine, seconds * 1000);
      await server.untilReady(1, 120_000);
      return done;
    },
    { environment: { NODE_OPTIONS: `--import=${collector}` } },
  );
  const size = Math.floor(work.samples.length / PARTS);
  const parts = Array.from({ length: PARTS }, (_, part) =>
    work.samples.slice(part * size, (part + 1) * size),
  );
  const used = parts.map((samples) => median(samples.map((sample) => sample.used)));
  const resident = parts.map((samples) => median(samples.map((sample) => sample.resident)));
  const ratio = (used.at(-1) ?? Number.NaN) / (used[1] ?? Number.NaN);
  return {
    name: `memory in use after ${seconds} s of saves and lists, Node.js ${process.versions.node}`,
    value: `${used.at(-1)?.toFixed(1)} MB`,
    floor: `${used[1]?.toFixed(1)} MB in the second fifth`,
    ratio: ratio.toFixed(2),
    aim: "<= 1.10",
    isMet: ratio <= 1.1,
    notes: [
      `${work.saves} saves, ${work.lists} lists, no failed request, the app is Ready`,
      `in use, by fifths: ${used.map((megabytes) => megabytes.toFixed(1)).join(", ")} MB`,
      `resident, by fifths: ${resident.map((megabytes) => megabytes.toFixed(0)).join(", ")} MB`,
    ],
  };
}

async function runSoak(
  server: BenchServer,
  engine: BenchEngine,
  limitMs: number,
): Promise<{ saves: number; lists: number; samples: Sample[] }> {
  const end = performance.now() + limitMs;
  const goesOn = () => performance.now() < end;
  const samples: Sample[] = [];
  let saves = 0;
  let lists = 0;
  const save = async () => {
    while (goesOn()) {
      const file = join(server.specsDir, "soak.yaml");
      await writeFile(`${file}.new`, specText(engine, saves));
      await rename(`${file}.new`, file);
      saves += 1;
      await sleep(SAVE_EVERY_MS);
    }
  };
  const list = async () => {
    while (goesOn()) {
      await server.get("/api/apps");
      lists += 1;
      await sleep(SAVE_EVERY_MS / 2);
    }
  };
  const sample = async () => {
    while (goesOn()) {
      await sleep(SAMPLE_EVERY_MS);
      process.kill(server.pid, "SIGUSR2");
      await sleep(COLLECTED_AFTER_MS);
      const bytes = await server.metric(
        "nodejs_heap_size_used_bytes",
        "nodejs_external_memory_bytes",
      );
      samples.push({ used: bytes / 1e6, resident: await server.residentMegabytes() });
    }
  };
  await Promise.all([save(), sample(), ...Array.from({ length: READERS }, list)]);
  return { saves, lists, samples };
}

function specText({ image, port }: BenchEngine, save: number): string {
  const spec = `{ image: "${image}", port: ${port}, env: { SAVE: "${save}" } }`;
  return `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: soak }\nspec: ${spec}\n`;
}
