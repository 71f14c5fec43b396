import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { NETWORK_POOL } from "../../src/base/default-network-pool.ts";
import { networkName, stackNetworkName } from "../../src/controller/engine-names.ts";
import { INSTANCE, STACK } from "../../src/controller/labels.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import { dockerClient, dockerHost } from "../support/engine.ts";
import { sweep, trackInstance } from "../support/engine-runs.ts";
import { SHELL, WEB } from "../support/images.ts";
import { randomInstance } from "../support/random-instance.ts";

/**
 * Many stacks on one engine, each with a service `db`. BERTH_STACK_RUNS=200 gives the number of stacks; the default
 * keeps the suite fast.
 */
const COUNT = Number(process.env["BERTH_STACK_RUNS"] ?? "12");

const signal = new AbortController().signal;
const instance = randomInstance();
const docker = dockerClient();
const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });
const stacks = Array.from({ length: COUNT }, (_, index) => `stack-${index}`);

beforeAll(async () => {
  await trackInstance(instance);
  await runtime.ensureNetwork(networkName(instance), { [INSTANCE]: instance }, signal);
});
afterAll(async () => {
  await sweep(docker, `${INSTANCE}=${instance}`);
  await runtime[Symbol.asyncDispose]();
});

it(`gives each of ${COUNT} stacks a subnet of its own, in which a name leads to its own container`, async () => {
  await Promise.all(
    stacks.map((stack) =>
      runtime.ensureStackNetwork(
        stackNetworkName(instance, stack),
        { [INSTANCE]: instance, [STACK]: stack },
        NETWORK_POOL,
        signal,
      ),
    ),
  );
  const networks = await docker.listNetworks({
    filters: { label: [`${INSTANCE}=${instance}`, STACK] },
  });
  const subnets = networks.map(({ IPAM }) => IPAM?.Config?.[0]?.Subnet ?? "");
  expect(networks).toHaveLength(COUNT);
  expect(new Set(subnets).size).toBe(COUNT);
  for (const subnet of subnets) expect(subnet).toMatch(/^10\.213\.\d+\.\d+\/26$/);

  for (const stack of [stacks[0] ?? "", stacks.at(-1) ?? ""]) {
    await run(stack, "db", { image: WEB, env: [`BODY=${stack}`] });
    const client = await run(stack, "client", { image: SHELL, env: [] });
    const script = "until wget -q -O - http://db:8080/; do sleep 0.1; done";
    const { output } = await runtime.exec(client, ["sh", "-c", script], 20_000, signal);
    expect(output.trim().split("\n").at(-1)).toBe(stack);
  }
});

/** Runs a container of a stack as Berth does, and returns its id. */
async function run(
  stack: string,
  service: string,
  { image, env }: { readonly image: string; readonly env: readonly string[] },
): Promise<string> {
  const app = `${stack}-${service}`;
  const id = await runtime.createContainer(
    {
      name: `berth-${instance}-${app}`,
      image,
      labels: { [INSTANCE]: instance },
      env,
      network: networkName(instance),
      aliases: [app],
      mounts: [],
      publish: [],
      stopGraceMs: 1_000,
    },
    signal,
  );
  await runtime.connectNetwork(
    id,
    stackNetworkName(instance, stack),
    { aliases: [app, service] },
    signal,
  );
  await runtime.startContainer(id, signal);
  return id;
}
