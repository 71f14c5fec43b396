import { type BenchEngine, sweep } from "./engine.ts";
import { type Figure, median, seconds } from "./report.ts";
import type { BenchServer } from "./server.ts";

const ROUNDS = 7;

/** Compares the time from `docker kill` to Running with the engine's time to start a stopped container. */
export async function benchRecover(
  server: BenchServer,
  engine: BenchEngine,
  firstApp: number,
): Promise<Figure> {
  const berth: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    bare.push(await bareStart(engine, round));
    berth.push(await recovery(server, engine, `app-${String(firstApp + round).padStart(3, "0")}`));
  }
  const ratio = median(berth) / median(bare);
  return {
    name: "docker kill to Running",
    value: seconds(median(berth)),
    floor: `${seconds(median(bare))} kill+start by hand`,
    ratio: ratio.toFixed(2),
    aim: "< 1.3",
    isMet: ratio < 1.3,
  };
}

async function recovery(server: BenchServer, engine: BenchEngine, app: string): Promise<number> {
  const filters = { label: [`dev.berth.instance=${server.instance}`, `dev.berth.app=${app}`] };
  const [container] = await engine.docker.listContainers({ filters });
  if (!container) throw new Error(`${app} has no running container`);
  return killUntilRunning(engine, container.Id, async () => {});
}

/** Measures how long the engine, without Berth, takes to run a container again after a kill. */
async function bareStart(engine: BenchEngine, round: number): Promise<number> {
  const { docker, image } = engine;
  const labels = { "dev.berth.bench": "1" };
  const network = await docker.createNetwork({
    Name: `berth-bench-recover-${round}`,
    Labels: labels,
  });
  try {
    const container = await docker.createContainer({
      name: `berth-bench-recover-${round}`,
      Image: image,
      Labels: labels,
      HostConfig: { Init: true, NetworkMode: network.id },
    });
    await container.start();
    return await killUntilRunning(engine, container.id, async () => {
      await container.wait();
      await container.start();
    });
  } finally {
    await sweep(docker, "dev.berth.bench");
  }
}

async function killUntilRunning(
  engine: BenchEngine,
  id: string,
  restart: () => Promise<void>,
): Promise<number> {
  const container = engine.docker.getContainer(id);
  const before = (await container.inspect()).State.StartedAt;
  const start = performance.now();
  const [, took] = await Promise.all([
    container.kill().then(restart),
    (async () => {
      for (;;) {
        const { State } = await container.inspect();
        if (State.Running && State.StartedAt !== before) return performance.now() - start;
        if (performance.now() - start > 60_000) throw new Error(`${id} did not come back`);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })(),
  ]);
  return took;
}
