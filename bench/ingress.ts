import { setTimeout as sleep } from "node:timers/promises";
import { ensureTestImages } from "../test/support/images.ts";
import { TrafficLoad, visit } from "../test/support/traffic.ts";
import { withServer } from "./create.ts";
import type { BenchEngine } from "./engine.ts";
import { PlainCaddy } from "./plain-caddy.ts";
import { type Figure, median } from "./report.ts";
import type { BenchServer } from "./server.ts";
import { answersPerSecond, cpuMsPerAnswer } from "./throughput.ts";
import { DIES_SOON, deployFailing, deployWeb, NEVER_READY, WEB_PORT } from "./web-source.ts";

const ROUNDS = 5;
const ROUND_MS = 3_000;
const DEPLOYS = 20;
/** The CPU time of a plain Caddy of the same version, divided by that of the ingress, at 16 connections. */
const CPU_AIM = 0.72;
const REQUESTS = 100_000;
const FAILED_RELEASES = 5;
const APP = "visited";
const NAME = `${APP}.localhost`;

/** Measures the cost of the ingress at full load, and the failed requests during deploys. */
export async function benchIngress(engine: BenchEngine): Promise<Figure[]> {
  await ensureTestImages(engine.host);
  return withServer(
    engine,
    async (server) => {
      await deployWeb(server, APP, "version 0", { wait: true });
      return [
        ...(await throughput(engine, server)),
        await deploysUnderLoad(server),
        await failedReleases(server),
      ];
    },
    { ingress: "process" },
  );
}

/**
 * Compares requests through the ingress with requests to the container, and with a Caddy that only forwards them, in
 * alternating rounds: answers per second, and the CPU time of Caddy for each answer, which a busy machine changes less.
 */
async function throughput(engine: BenchEngine, server: BenchServer): Promise<Figure[]> {
  const through = { address: "127.0.0.1", port: server.ingressPort, name: NAME };
  const direct = { address: await addressOf(engine, server), port: WEB_PORT, name: NAME };
  await using caddy = await PlainCaddy.start(`${direct.address}:${WEB_PORT}`);
  const plain = { address: "127.0.0.1", port: caddy.port, name: NAME };
  for (const target of [direct, through, plain]) await answersPerSecond(target, ROUND_MS);
  const berth: number[] = [];
  const bare: number[] = [];
  const passed: number[] = [];
  const berthCpu: number[] = [];
  const plainCpu: number[] = [];
  const ingressPid = await server.readCaddyPid();
  for (let round = 0; round < ROUNDS; round += 1) {
    bare.push(await answersPerSecond(direct, ROUND_MS));
    berth.push(await answersPerSecond(through, ROUND_MS));
    passed.push(await answersPerSecond(plain, ROUND_MS));
    berthCpu.push(await cpuMsPerAnswer(through, ingressPid, ROUND_MS));
    plainCpu.push(await cpuMsPerAnswer(plain, caddy.pid, ROUND_MS));
  }
  const cpuRatio = median(plainCpu.map((value, round) => value / (berthCpu[round] ?? value)));
  const ratio = median(berth.map((value, round) => value / (bare[round] ?? value)));
  const ofPlain = median(berth.map((value, round) => value / (passed[round] ?? value)));
  const requests: Figure = {
    name: "requests through the ingress",
    value: `${median(berth).toFixed(0)}/s`,
    floor: `${median(bare).toFixed(0)}/s to the container`,
    ratio: ratio.toFixed(2),
    aim: "-",
    isMet: undefined,
    notes: [
      `a Caddy that only passes on: ${median(passed).toFixed(0)}/s; the ingress divided by it: ${ofPlain.toFixed(2)}`,
    ],
  };
  const cpu: Figure = {
    name: "CPU time for each request of the ingress",
    value: `${(median(berthCpu) * 1000).toFixed(0)} us`,
    floor: `${(median(plainCpu) * 1000).toFixed(0)} us of a plain Caddy`,
    ratio: cpuRatio.toFixed(2),
    aim: `>= ${CPU_AIM}`,
    isMet: cpuRatio >= CPU_AIM,
  };
  return [requests, cpu];
}

async function addressOf(engine: BenchEngine, server: BenchServer): Promise<string> {
  const label = [`dev.berth.instance=${server.instance}`, `dev.berth.app=${APP}`];
  const [container] = await engine.docker.listContainers({ filters: { label } });
  const [network] = Object.values(container?.NetworkSettings.Networks ?? {});
  if (!network?.IPAddress) throw new Error(`${APP} has no address`);
  return network.IPAddress;
}

/** Sends requests while versions are built, started and replaced; every second one never gets ready. */
async function deploysUnderLoad(server: BenchServer): Promise<Figure> {
  const where = { port: server.ingressPort, host: NAME };
  await using load = new TrafficLoad(where, { visitors: 4 });
  for (let version = 1; version <= DEPLOYS; version += 1) {
    await deployWeb(server, APP, `version ${version}`, { wait: true, observe: "5s" });
    if (version % 2 === 0) await deployFailing(server, APP, NEVER_READY);
  }
  while (load.requests < REQUESTS) await sleep(100);
  await load.stop();
  if (load.bodies.size !== DEPLOYS + 1)
    throw new Error(`${load.bodies.size} versions have answered, not ${DEPLOYS + 1}`);
  return {
    name: `failed requests during ${DEPLOYS} deploys and ${DEPLOYS / 2} that never get ready`,
    value: `${load.failures.length} of ${load.requests}`,
    floor: "0",
    ratio: "-",
    aim: "0",
    isMet: load.failures.length === 0,
    ...(load.failures.length > 0 ? { notes: load.failures.slice(0, 10) } : {}),
  };
}

/** Measures the time from the last answer of a release that dies to the next one of the previous version. */
async function failedReleases(server: BenchServer): Promise<Figure> {
  const where = { port: server.ingressPort, host: NAME };
  const gapsMs: number[] = [];
  let failed = 0;
  let requests = 0;
  for (let round = 0; round < FAILED_RELEASES; round += 1) {
    const deployed = { isOver: false };
    const deploying = deployFailing(server, APP, DIES_SOON).finally(() => (deployed.isOver = true));
    await using load = new TrafficLoad(where, { visitors: 4 });
    let diedMs: number | undefined;
    let backMs: number | undefined;
    // Each question has a connection of its own, so that one which waits delays no other.
    const ask = async () => {
      const answer = await visit(where).catch(() => undefined);
      if (answer?.body === "dies soon") [diedMs, backMs] = [performance.now(), undefined];
      else if (answer?.status === 200 && diedMs !== undefined) backMs ??= performance.now();
    };
    const asked: Promise<void>[] = [];
    while (!deployed.isOver) {
      asked.push(ask());
      await sleep(10);
    }
    await Promise.all([deploying, ...asked]);
    await load.stop();
    failed += load.failures.length;
    requests += load.requests;
    if (diedMs === undefined || backMs === undefined)
      throw new Error("the release that dies got no request");
    gapsMs.push(backMs - diedMs);
  }
  const longestMs = Math.max(...gapsMs);
  return {
    name: "last answer of a release that dies to the previous one serving",
    value: `${median(gapsMs).toFixed(0)} ms`,
    floor: "-",
    ratio: "-",
    aim: "<= 1000 ms",
    isMet: longestMs <= 1_000,
    notes: [`longest: ${longestMs.toFixed(0)} ms; failed requests: ${failed} of ${requests}`],
  };
}
