import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isAtLeast } from "../src/controller/ingress/caddy-version.ts";
import { ensureTestImages } from "../test/support/images.ts";
import { TrafficLoad, visit } from "../test/support/traffic.ts";
import { withServer } from "./create.ts";
import type { BenchEngine } from "./engine.ts";
import { KamalProxy } from "./kamal-proxy.ts";
import { PlainCaddy, readCaddyVersion } from "./plain-caddy.ts";
import { type Figure, median } from "./report.ts";
import type { BenchServer } from "./server.ts";
import { benchServing } from "./serving.ts";
import { answersPerSecond, cpuMsPerAnswer, type Target } from "./throughput.ts";
import { DIES_SOON, deployFailing, deployWeb, NEVER_READY, WEB_PORT } from "./web-source.ts";

const ROUNDS = 5;
const ROUND_MS = 3_000;
const DEPLOYS = 20;
/**
 * Minima for the CPU time of a plain Caddy divided by the CPU time of the ingress, with the same version of Caddy and
 * 16 connections. TABLE_AIM (Caddy before 2.7) and TABLE_AIM_OF_NEWER (Caddy 2.7 or newer) apply to an app that Caddy
 * looks up in the route table, DIRECT_AIM to an app with a direct route.
 */
const TABLE_AIM = 0.72;
const TABLE_AIM_OF_NEWER = 0.66;
const DIRECT_AIM = 0.9;
const CPU_ROUNDS = 11;
const CPU_ROUND_MS = 1_500;
const REQUESTS = 100_000;
const LOADS = 20;
const LOAD_PAUSE_MS = 500;
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
        await benchServing(server, APP),
        await deploysUnderLoad(server),
        await loadsUnderLoad(server),
        await failedReleases(server),
      ];
    },
    { ingress: "process" },
  );
}

/**
 * Compares requests through the ingress with requests to the container, and with a Caddy that only forwards them, in
 * alternating rounds. Measures answers per second, and Caddy's CPU time for each answer. Other load of the machine
 * affects the CPU time less than the rate.
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
  for (let round = 0; round < ROUNDS; round += 1) {
    bare.push(await answersPerSecond(direct, ROUND_MS));
    berth.push(await answersPerSecond(through, ROUND_MS));
    passed.push(await answersPerSecond(plain, ROUND_MS));
  }
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
  const proxies = {
    ingress: { target: through, pid: await server.readCaddyPid() },
    plain: { target: plain, pid: caddy.pid },
  };
  const isNewer = isAtLeast(await readCaddyVersion(), 2, 7);
  const tableAim = isNewer ? TABLE_AIM_OF_NEWER : TABLE_AIM;
  const table = await compareCpu("an app in the table", tableAim, proxies);
  await loadConfiguration(server, "/first");
  const withDirectRoute = await compareCpu("an app with a direct route", DIRECT_AIM, proxies);
  return [
    requests,
    table,
    withDirectRoute,
    await afterRollout(engine, server, proxies.ingress),
    ...(await compareKamal(`${direct.address}:${WEB_PORT}`, proxies.plain)),
  ];
}

/**
 * Measures an app with a direct route after a rollout. The rollout has changed the address of the app's container, but
 * not Caddy's configuration.
 */
async function afterRollout(
  engine: BenchEngine,
  server: BenchServer,
  ingress: MeasuredProxy,
): Promise<Figure> {
  await deployWeb(server, APP, "after a rollout", { wait: true });
  while ((await listContainers(engine, server)).length > 1) await sleep(100);
  await using caddy = await PlainCaddy.start(`${await addressOf(engine, server)}:${WEB_PORT}`);
  const plain = { target: { ...ingress.target, port: caddy.port }, pid: caddy.pid };
  return await compareCpu("an app with a direct route, after a rollout", DIRECT_AIM, {
    ingress,
    plain,
  });
}

interface MeasuredProxy {
  readonly target: Target;
  readonly pid: number;
}

/** Compares the CPU time for each request of the ingress with that of a plain Caddy in alternating rounds. */
async function compareCpu(
  what: string,
  aim: number,
  { ingress, plain }: { readonly ingress: MeasuredProxy; readonly plain: MeasuredProxy },
): Promise<Figure> {
  const own: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < CPU_ROUNDS; round += 1) {
    own.push(await cpuMsPerAnswer(ingress.target, ingress.pid, CPU_ROUND_MS));
    bare.push(await cpuMsPerAnswer(plain.target, plain.pid, CPU_ROUND_MS));
  }
  const ratio = median(bare.map((value, round) => value / (own[round] ?? value)));
  return {
    name: `CPU time for each request to ${what}`,
    value: `${(median(own) * 1000).toFixed(0)} us`,
    floor: `${(median(bare) * 1000).toFixed(0)} us of a plain Caddy`,
    ratio: ratio.toFixed(2),
    aim: `>= ${aim}`,
    isMet: ratio >= aim,
  };
}

/** Compares the CPU time of kamal-proxy, if that is installed, with the CPU time of a plain Caddy. */
async function compareKamal(upstream: string, plain: MeasuredProxy): Promise<Figure[]> {
  await using proxy = await KamalProxy.start();
  if (!proxy) return [];
  await proxy.deploy(upstream);
  const target = { address: "127.0.0.1", port: proxy.port, name: NAME };
  const ingress = { target, pid: proxy.pid };
  const figure = await compareCpu("kamal-proxy, for comparison", 0, { ingress, plain });
  return [{ ...figure, aim: "-", isMet: undefined }];
}

/**
 * Makes Caddy load a configuration by writing the spec of a stopped app with this path prefix. Returns when the
 * configuration is loaded.
 */
async function loadConfiguration(server: BenchServer, path: string): Promise<void> {
  const spec = {
    image: "berth.bench/none:1",
    port: 80,
    running: false,
    ingress: { pathPrefix: path },
  };
  const file = join(server.specsDir, "special.yaml");
  await writeFile(
    file,
    JSON.stringify({
      apiVersion: "berth.dev/v1",
      kind: "App",
      metadata: { name: "special" },
      spec,
    }),
  );
  while (!(await server.readCaddyConfig()).includes(`^${path}(`)) await sleep(20);
}

/** Counts the requests that fail while Caddy loads configurations. */
async function loadsUnderLoad(server: BenchServer): Promise<Figure> {
  await using load = new TrafficLoad({ port: server.ingressPort, host: NAME }, { visitors: 16 });
  for (let round = 0; round < LOADS; round += 1) {
    await loadConfiguration(server, `/load-${round}`);
    await sleep(LOAD_PAUSE_MS);
  }
  await load.stop();
  return {
    name: `failed requests during ${LOADS} loads of the configuration`,
    value: `${load.failures.length} of ${load.requests}`,
    floor: "-",
    ratio: "-",
    aim: "-",
    isMet: undefined,
    ...(load.failures.length > 0 ? { notes: load.failures.slice(0, 10) } : {}),
  };
}

function listContainers(engine: BenchEngine, server: BenchServer) {
  const label = [`dev.berth.instance=${server.instance}`, `dev.berth.app=${APP}`];
  return engine.docker.listContainers({ filters: { label } });
}

async function addressOf(engine: BenchEngine, server: BenchServer): Promise<string> {
  const [container] = await listContainers(engine, server);
  const [network] = Object.values(container?.NetworkSettings.Networks ?? {});
  if (!network?.IPAddress) throw new Error(`${APP} has no address`);
  return network.IPAddress;
}

/**
 * Sends requests while Berth builds, starts and replaces versions. After every second version, the benchmark also
 * deploys one that never becomes ready, which must not interrupt the app.
 */
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

/** Measures the time from the last answer of a release that crashes to the next answer of the previous version. */
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
    // Each request has its own connection, so that a request that waits does not delay the others.
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
