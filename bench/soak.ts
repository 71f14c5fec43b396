import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { withServer } from "./create.ts";
import type { BenchEngine } from "./engine.ts";
import { type Figure, median } from "./report.ts";
import type { BenchServer } from "./server.ts";

const SAVE_EVERY_MS = 100;
const READERS = 5;
const SAMPLE_EVERY_MS = 2_000;
/** The heap grows to its working size in the first fifth; what is compared comes after it. */
const WARM_UP_SHARE = 0.2;

/**
 * One app whose spec file is saved with another environment every 100 ms while five clients list the apps.
 * Rejects when the server ends, when a request fails, or when the app does not become Ready afterwards.
 * The figure is the server's resident memory in the last fifth of the time over that in the second fifth.
 */
export async function benchSoak(engine: BenchEngine, seconds: number): Promise<Figure> {
  return await withServer(engine, async (server) => {
    const work = await runSoak(server, engine, seconds * 1000);
    await server.untilReady(1, 120_000);
    const fifth = Math.floor(work.megabytes.length * WARM_UP_SHARE);
    const early = median(work.megabytes.slice(fifth, 2 * fifth));
    const late = median(work.megabytes.slice(-fifth));
    const ratio = late / early;
    return {
      name: `resident memory after ${seconds} s of saves and lists, Node.js ${process.versions.node}`,
      value: `${late.toFixed(0)} MB`,
      floor: `${early.toFixed(0)} MB after a fifth`,
      ratio: ratio.toFixed(2),
      aim: "<= 1.10",
      isMet: ratio <= 1.1,
      notes: [`${work.saves} saves, ${work.lists} lists, no failed request, the app is Ready`],
    };
  });
}

async function runSoak(
  server: BenchServer,
  engine: BenchEngine,
  limitMs: number,
): Promise<{ saves: number; lists: number; megabytes: number[] }> {
  const end = performance.now() + limitMs;
  const goesOn = () => performance.now() < end;
  const megabytes: number[] = [];
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
      megabytes.push(await server.residentMegabytes());
      await sleep(SAMPLE_EVERY_MS);
    }
  };
  await Promise.all([save(), sample(), ...Array.from({ length: READERS }, list)]);
  return { saves, lists, megabytes };
}

function specText({ image, port }: BenchEngine, save: number): string {
  const spec = `{ image: "${image}", port: ${port}, env: { SAVE: "${save}" } }`;
  return `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: soak }\nspec: ${spec}\n`;
}
