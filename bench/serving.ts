import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { freePorts } from "../test/support/free-port.ts";
import { type VisitTarget, visit } from "../test/support/traffic.ts";
import { KamalProxy } from "./kamal-proxy.ts";
import { type Figure, median, percentile } from "./report.ts";
import type { BenchServer } from "./server.ts";
import { deployWeb, WEB_PORT } from "./web-source.ts";

const ROUNDS = 15;
const START_MAX_MS = 3_000;
const POLL_MS = 2;
const LIMIT_MS = 60_000;
const AIM_MS = 60;

/** A web server that opens its port after a delay. It answers with its name and the time at which the port opened. */
function lateServer(name: string, port: number, afterMs: number): string {
  return [
    "let openedMs = 0;",
    `const server = require("node:http").createServer((_, response) => response.end(${JSON.stringify(name)} + " " + openedMs));`,
    `setTimeout(() => server.listen(${port}, () => { openedMs = Date.now(); }), ${afterMs});`,
    `process.on("SIGTERM", () => server.close(() => process.exit(0)));`,
    "",
  ].join("\n");
}

/** Returns a different delay for each round, so that the probes have no fixed relation to the opening of the port. */
const startMs = (round: number) => 150 + ((round * 619) % START_MAX_MS);

/** Measures the time from the opening of a new version's port to its first answer through the ingress. */
export async function benchServing(server: BenchServer, app: string): Promise<Figure> {
  const where = { port: server.ingressPort, host: `${app}.localhost` };
  const took: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const name = `late ${round}`;
    const program = lateServer(name, WEB_PORT, startMs(round));
    const [, servedMs] = await Promise.all([
      deployWeb(server, app, "", { wait: true, program }),
      waitForAnswer(where, name),
    ]);
    took.push(servedMs);
  }
  const kamal = await benchKamal();
  const ms = median(took);
  return {
    name: "open port of a new version to its first answer",
    value: `${ms.toFixed(0)} ms`,
    floor:
      kamal === undefined
        ? "kamal-proxy is not installed"
        : `${kamal.toFixed(0)} ms of kamal-proxy`,
    ratio: kamal === undefined ? "-" : (ms / kamal).toFixed(2),
    aim: `<= ${AIM_MS} ms`,
    isMet: ms <= AIM_MS,
    notes: [
      `from ${Math.min(...took).toFixed(0)} to ${Math.max(...took).toFixed(0)} ms, 90 % within ${percentile(took, 0.9).toFixed(0)} ms; kamal-proxy checks every 50 ms here, and every second by default`,
    ],
  };
}

async function benchKamal(): Promise<number | undefined> {
  await using proxy = await KamalProxy.start();
  if (!proxy) return undefined;
  const took: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const [port = 0] = await freePorts(1);
    const name = `late ${round}`;
    const program = lateServer(name, port, startMs(round));
    const child = spawn(process.execPath, ["-e", program], { stdio: "ignore" });
    try {
      const where = { port: proxy.port, host: "late.localhost" };
      const [, servedMs] = await Promise.all([
        proxy.deploy(`127.0.0.1:${port}`),
        waitForAnswer(where, name),
      ]);
      took.push(servedMs);
    } finally {
      child.kill("SIGKILL");
    }
  }
  return median(took);
}

/** Returns the time from the opening of the port to the first answer of the new version. */
async function waitForAnswer(where: VisitTarget, name: string): Promise<number> {
  const end = Date.now() + LIMIT_MS;
  while (Date.now() < end) {
    const { body } = await visit(where).catch(() => ({ body: "" }));
    if (body.startsWith(`${name} `)) return Date.now() - Number(body.slice(name.length + 1));
    await sleep(POLL_MS);
  }
  throw new Error(`"${name}" is not served`);
}
