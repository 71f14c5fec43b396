import { ensureTestImages } from "../test/support/images.ts";
import { TrafficLoad } from "../test/support/traffic.ts";
import { withServer } from "./create.ts";
import type { BenchEngine } from "./engine.ts";
import { PlainCaddy } from "./plain-caddy.ts";
import { type Figure, median } from "./report.ts";
import type { BenchServer } from "./server.ts";
import { answersPerSecond } from "./throughput.ts";
import { deployWeb, WEB_PORT } from "./web-source.ts";

const ROUNDS = 5;
const ROUND_MS = 3_000;
const DEPLOYS = 20;
const APP = "visited";
const NAME = `${APP}.localhost`;

/** Measures the cost of the ingress at full load, and the failed requests during deploys. */
export async function benchIngress(engine: BenchEngine): Promise<Figure[]> {
  await ensureTestImages(engine.host);
  return withServer(
    engine,
    async (server) => {
      await deployWeb(server, APP, "version 0", { wait: true });
      return [await throughput(engine, server), await deploysUnderLoad(server)];
    },
    { ingress: "process" },
  );
}

/**
 * Compares requests per second through the ingress with requests to the container, in alternating rounds. A Caddy that only
 * forwards requests shows Berth's share of the difference.
 */
async function throughput(engine: BenchEngine, server: BenchServer): Promise<Figure> {
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
  return {
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
}

async function addressOf(engine: BenchEngine, server: BenchServer): Promise<string> {
  const label = [`dev.berth.instance=${server.instance}`, `dev.berth.app=${APP}`];
  const [container] = await engine.docker.listContainers({ filters: { label } });
  const [network] = Object.values(container?.NetworkSettings.Networks ?? {});
  if (!network?.IPAddress) throw new Error(`${APP} has no address`);
  return network.IPAddress;
}

/** Sends requests while versions are built, started and replaced. */
async function deploysUnderLoad(server: BenchServer): Promise<Figure> {
  const where = { port: server.ingressPort, host: NAME };
  await using load = new TrafficLoad(where, { visitors: 4, restMs: 2 });
  for (let version = 1; version <= DEPLOYS; version += 1)
    await deployWeb(server, APP, `version ${version}`, { wait: true });
  await load.stop();
  if (load.bodies.size !== DEPLOYS + 1)
    throw new Error(`${load.bodies.size} versions have answered, not ${DEPLOYS + 1}`);
  return {
    name: `failed requests during ${DEPLOYS} deploys`,
    value: `${load.failures.length} of ${load.requests}`,
    floor: "0",
    ratio: "-",
    aim: "0",
    isMet: load.failures.length === 0,
    ...(load.failures.length > 0 ? { notes: load.failures.slice(0, 10) } : {}),
  };
}
