import { type ChildProcess, spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { withServer } from "./create.ts";
import type { BenchEngine } from "./engine.ts";
import { type Figure, median } from "./report.ts";
import type { BenchServer } from "./server.ts";
import { answersPerSecond, cpuMsPerAnswer, type Target } from "./throughput.ts";

const APPS = 100;
const ROUNDS = 7;
const ROUND_MS = 2_000;
const PATH = "/api/apps?limit=1000";

/** Compares `GET /api/apps` with a bare Fastify in another process, which answers with the same bytes. */
export function benchAppList(engine: BenchEngine): Promise<Figure> {
  return withServer(engine, async (server) => {
    await writeStoppedApps(server);
    const payload = JSON.stringify(await server.get(PATH));
    const bare = await startBareFastify(payload);
    try {
      return await compare(server, bare);
    } finally {
      bare.process.kill();
    }
  });
}

async function compare(server: BenchServer, bare: BareServer): Promise<Figure> {
  const { hostname, port } = new URL(server.api);
  const berthTarget = { address: hostname, port: Number(port), name: `${hostname}:${port}` };
  const berth: Target = { ...berthTarget, path: PATH, headers: server.headers };
  const floor: Target = { address: "127.0.0.1", port: bare.port, name: "bare", path: PATH };
  const rounds: { berth: number; bare: number; berthCpu: number; bareCpu: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1)
    rounds.push({
      bare: await answersPerSecond(floor, ROUND_MS),
      berth: await answersPerSecond(berth, ROUND_MS),
      bareCpu: await cpuMsPerAnswer(floor, bare.process.pid ?? 0, ROUND_MS),
      berthCpu: await cpuMsPerAnswer(berth, server.pid, ROUND_MS),
    });
  const ratio = median(rounds.map((one) => one.berth / one.bare));
  const cpuRatio = median(rounds.map((one) => one.bareCpu / one.berthCpu));
  return {
    name: `GET /api/apps, ${APPS} apps, 16 connections`,
    value: `${median(rounds.map((one) => one.berth)).toFixed(0)}/s`,
    floor: `${median(rounds.map((one) => one.bare)).toFixed(0)}/s bare Fastify`,
    ratio: ratio.toFixed(2),
    aim: ">= 0.5",
    isMet: ratio >= 0.5,
    notes: [`CPU of a bare answer over Berth's: ${cpuRatio.toFixed(2)}`],
  };
}

/** Creates apps that run no container, so that nothing but the requests uses the server. */
async function writeStoppedApps(server: BenchServer): Promise<void> {
  for (let index = 0; index < APPS; index += 1) {
    const name = `app-${String(index).padStart(3, "0")}`;
    const spec = `{ image: "example.org/${name}:1", port: 8080, running: false }`;
    await writeFile(
      join(server.specsDir, `${name}.yaml`),
      `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: ${name} }\nspec: ${spec}\n`,
    );
  }
  for (;;) {
    const { apps } = await server.get<{ apps: { status: string }[] }>(PATH);
    if (apps.filter(({ status }) => status === "stopped").length === APPS) return;
    await sleep(100);
  }
}

interface BareServer {
  readonly process: ChildProcess;
  readonly port: number;
}

async function startBareFastify(payload: string): Promise<BareServer> {
  const script = join(import.meta.dirname, "bare-fastify.mjs");
  const child = spawn(process.execPath, [script], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(payload);
  for await (const line of createInterface({ input: child.stdout }))
    return { process: child, port: Number(line) };
  throw new Error("the bare server has ended");
}
