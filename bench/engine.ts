import type Docker from "dockerode";
import { ensureHelloImage, HELLO_IMAGE, HELLO_PORT } from "../scripts/base-image.mjs";
import { startPrivateEngine, stopPrivateEngine } from "../scripts/engine.mjs";
import { connectTo } from "../test/support/engine-client.ts";

/** The container engine on which the benchmarks run, and the image that all their apps use. */
export interface BenchEngine extends AsyncDisposable {
  readonly host: string;
  readonly docker: Docker;
  readonly image: string;
  readonly port: number;
}

/** Returns the engine that BERTH_BENCH_DOCKER_HOST names, or starts a private engine for the benchmarks. */
export async function benchEngine(): Promise<BenchEngine> {
  const given = process.env["BERTH_BENCH_DOCKER_HOST"];
  const engine = given === undefined ? await startPrivateEngine() : { host: given, started: false };
  await ensureHelloImage(engine.host);
  return {
    host: engine.host,
    docker: connectTo(engine.host),
    image: HELLO_IMAGE,
    port: HELLO_PORT,
    async [Symbol.asyncDispose]() {
      if (engine.started) await stopPrivateEngine();
    },
  };
}

/** Deletes all containers, networks and volumes with this label. */
export async function sweep(docker: Docker, label: string): Promise<void> {
  const filters = { label: [label] };
  const containers = await docker.listContainers({ all: true, filters });
  await inParallel(containers, 8, async ({ Id }) => {
    await docker.getContainer(Id).remove({ force: true, v: true });
  });
  for (const network of await docker.listNetworks({ filters }))
    await docker
      .getNetwork(network.Id)
      .remove()
      .catch(() => {});
}

/** Deletes the images that an instance has built. The caller deletes the containers of these images first. */
export async function sweepImages(docker: Docker, instance: string): Promise<void> {
  for (const { Id, RepoTags } of await docker.listImages())
    if ((RepoTags ?? []).some((tag) => tag.startsWith(`berth-${instance}/`)))
      await docker.getImage(Id).remove({ force: true });
}

export async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  const queue = items.map((item, index) => ({ item, index }));
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let next = queue.shift(); next; next = queue.shift()) await work(next.item, next.index);
    }),
  );
}
