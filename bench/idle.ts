import { readFile, utimes } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { BenchEngine } from "./engine.ts";
import { type Figure, median } from "./report.ts";
import type { BenchServer } from "./server.ts";

/** The unit of CPU time on Linux (USER_HZ), the same on all machines. */
const TICKS_PER_SECOND = 100;
const IDLE_SECONDS = 60;
const WRITES = [
  "createContainer",
  "startContainer",
  "stopContainer",
  "removeContainer",
  "renameContainer",
  "connectNetwork",
  "ensureNetwork",
  "ensureVolume",
  "pullImage",
  "removeImage",
];

/**
 * Measures the CPU share and resident memory of an idle Berth with `apps` Ready apps. The measurement is long enough to
 * include at least one periodic resync.
 */
export async function benchIdle(server: BenchServer, apps: number): Promise<Figure[]> {
  await sleep(70_000);
  const cpuBefore = await cpuSeconds(server.pid);
  const start = performance.now();
  await sleep(IDLE_SECONDS * 1000);
  const share = ((await cpuSeconds(server.pid)) - cpuBefore) / ((performance.now() - start) / 1000);
  const memory = await server.residentMegabytes();
  return [
    {
      name: `CPU share at rest, ${apps} apps`,
      value: `${(share * 100).toFixed(2)} % of a core`,
      floor: "0",
      ratio: "-",
      aim: "< 2 %",
      isMet: share < 0.02,
    },
    {
      name: `resident memory, ${apps} apps`,
      value: `${memory.toFixed(0)} MB`,
      floor: "-",
      ratio: "-",
      aim: "< 150 MB",
      isMet: memory < 150,
    },
  ];
}

/** Saves all spec files again with the same content, and counts the calls that change something on the engine. */
export async function benchReapply(server: BenchServer, apps: number): Promise<Figure> {
  const before = await engineWrites(server);
  const now = new Date();
  await Promise.all(
    Array.from({ length: apps }, (_, index) =>
      utimes(join(server.specsDir, `app-${String(index).padStart(3, "0")}.yaml`), now, now),
    ),
  );
  await sleep(5_000);
  const writes = (await engineWrites(server)) - before;
  return {
    name: `engine writes, ${apps} identical files saved again`,
    value: String(writes),
    floor: "0",
    ratio: "-",
    aim: "0",
    isMet: writes === 0,
  };
}

/**
 * Compares GET /api/apps per second with the engine's container list per second. One client sends the two requests in
 * alternating rounds.
 */
export async function benchList(
  server: BenchServer,
  engine: BenchEngine,
  apps: number,
): Promise<Figure> {
  const berth: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    berth.push(await perSecond(async () => void (await server.get("/api/apps?limit=1000"))));
    bare.push(
      await perSecond(async () => void (await engine.docker.listContainers({ all: true }))),
    );
  }
  const ratio = median(berth.map((value, round) => value / (bare[round] ?? value)));
  return {
    name: `GET /api/apps, ${apps} apps`,
    value: `${median(berth).toFixed(0)}/s`,
    floor: `${median(bare).toFixed(0)}/s engine list`,
    ratio: ratio.toFixed(1),
    aim: ">= 5",
    isMet: ratio >= 5,
  };
}

async function perSecond(call: () => Promise<void>): Promise<number> {
  const start = performance.now();
  let calls = 0;
  while (performance.now() - start < 2_000) {
    await call();
    calls += 1;
  }
  return calls / ((performance.now() - start) / 1000);
}

async function engineWrites(server: BenchServer): Promise<number> {
  const calls = await server.engineCalls();
  return WRITES.reduce((sum, name) => sum + (calls.get(name) ?? 0), 0);
}

async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
