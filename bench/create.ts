import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type BenchEngine, inParallel, sweep, sweepImages } from "./engine.ts";
import { type Figure, median, seconds } from "./report.ts";
import { BenchServer, type BenchServerOptions } from "./server.ts";

const APPS = 50;
/** The number of apps that Berth reconciles at the same time. */
const WIDTH = 8;
const ROUNDS = 3;

/**
 * Compares two durations at the same concurrency: the time until the apps of 50 spec files are Ready, and the time of
 * 50 bare create and start calls, in alternating rounds.
 */
export async function benchCreate(engine: BenchEngine): Promise<Figure> {
  const berth: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    bare.push(await bareRound(engine, round));
    berth.push(await berthRound(engine));
  }
  const ratio = median(berth.map((ms, round) => ms / (bare[round] ?? ms)));
  return {
    name: `${APPS} apps from files to Ready`,
    value: seconds(median(berth)),
    floor: `${seconds(median(bare))} bare create+start`,
    ratio: ratio.toFixed(2),
    aim: "<= 1.05",
    isMet: ratio <= 1.05,
  };
}

async function bareRound(engine: BenchEngine, round: number): Promise<number> {
  const { docker, image, port } = engine;
  const label = "dev.berth.bench";
  const network = await docker.createNetwork({
    Name: `berth-bench-${round}`,
    Labels: { [label]: "1" },
  });
  const start = performance.now();
  await inParallel(Array.from({ length: APPS }), WIDTH, async (_, index) => {
    const container = await docker.createContainer({
      name: `berth-bench-${round}-${index}`,
      Image: image,
      Labels: { [label]: "1" },
      ExposedPorts: { [`${port}/tcp`]: {} },
      HostConfig: {
        Init: true,
        NetworkMode: network.id,
        PortBindings: {
          [`${port}/tcp`]: [{ HostIp: "127.0.0.1", HostPort: String(33_000 + index) }],
        },
      },
    });
    await container.start();
  });
  const took = performance.now() - start;
  await sweep(docker, label);
  return took;
}

async function berthRound(engine: BenchEngine): Promise<number> {
  return withServer(engine, async (server) => {
    const start = performance.now();
    await writeApps(server, engine, APPS);
    await server.untilReady(APPS, 180_000);
    return performance.now() - start;
  });
}

/**
 * Runs `work` on a new server. Stops the server before deleting the containers, because a running server would create
 * them again.
 */
export async function withServer<T>(
  engine: BenchEngine,
  work: (server: BenchServer) => Promise<T>,
  options: BenchServerOptions = {},
): Promise<T> {
  const server = await BenchServer.start(engine.host, options);
  try {
    return await work(server);
  } finally {
    await server[Symbol.asyncDispose]();
    await sweep(engine.docker, `dev.berth.instance=${server.instance}`);
    await sweepImages(engine.docker, server.instance);
  }
}

export async function writeApps(
  server: BenchServer,
  engine: BenchEngine,
  count: number,
  from = 0,
): Promise<void> {
  await Promise.all(
    Array.from({ length: count }, (_, index) => {
      const name = `app-${String(from + index).padStart(3, "0")}`;
      const spec = `{ image: "${engine.image}", port: ${engine.port} }`;
      return writeFile(
        join(server.specsDir, `${name}.yaml`),
        `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: ${name} }\nspec: ${spec}\n`,
      );
    }),
  );
}
