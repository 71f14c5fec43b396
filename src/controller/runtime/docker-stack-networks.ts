import { readFile } from "node:fs/promises";
import { BerthError } from "../../base/errors.ts";
import { Mutex } from "../../base/mutex.ts";
import { findFreeSubnet } from "../free-subnet.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { hasLabels } from "./docker-containers.ts";
import {
  createNetwork,
  findNetworks,
  foreignResourceError,
  listNetworks,
  removeNetwork,
} from "./docker-networks.ts";
import type { Labels } from "./port.ts";

/**
 * The maximum number of subnets that the engine may refuse before the creation of a network fails. It refuses a subnet
 * that is in use although neither its list of networks nor the routes show that, such as the subnet of a network that
 * is just being created.
 */
const REFUSALS_MAX = 16;

/**
 * Creates the networks of stacks. Berth chooses their subnets, because the engine's own pools hold about thirty
 * networks, and a server may run hundreds of stacks.
 */
export class StackNetworkSetup {
  readonly #connection: DockerConnection;
  /** Prevents two networks from being created at the same time, because both would get the same subnet. */
  readonly #mutex = new Mutex();

  constructor(connection: DockerConnection) {
    this.#connection = connection;
  }

  ensure(name: string, labels: Labels, pool: string, signal: AbortSignal): Promise<void> {
    return this.#mutex.runExclusive(() => this.#ensure(name, labels, pool, signal));
  }

  async #ensure(name: string, labels: Labels, pool: string, signal: AbortSignal): Promise<void> {
    let there = await findNetworks(this.#connection, name, signal);
    if (there.length === 0) {
      await this.#create(name, labels, pool, signal);
      there = await findNetworks(this.#connection, name, signal);
    }
    if (there.some((network) => !hasLabels(network.labels, labels)))
      throw foreignResourceError("network", name);
    // After a lost reply, a repeated call has created a second network with this name, on which no container can start.
    for (const surplus of there.slice(1)) await removeNetwork(this.#connection, surplus.id, signal);
  }

  async #create(name: string, labels: Labels, pool: string, signal: AbortSignal): Promise<void> {
    const used = (await listNetworks(this.#connection, [], signal)).flatMap(
      (network) => network.subnets,
    );
    if (this.#connection.address.location === "this-machine") used.push(...(await readRoutes()));
    for (let refusals = 0; ; refusals += 1) {
      const subnet = findFreeSubnet(pool, used);
      if (subnet === undefined)
        throw new BerthError(
          "engine_error",
          `no /26 of the range ${pool} is free for the network ${name}`,
          { hint: "set another range with --network-pool, or delete stacks that nothing needs" },
        );
      try {
        await createNetwork(this.#connection, { name, labels, range: { Subnet: subnet } }, signal);
        return;
      } catch (error) {
        const isRefused = error instanceof BerthError && error.code === "engine_error";
        if (!isRefused || refusals >= REFUSALS_MAX) throw error;
        used.push(subnet);
      }
    }
  }
}

/** Returns the subnets that this machine's IPv4 routing table leads to, without the default route. */
async function readRoutes(): Promise<string[]> {
  const table = await readFile("/proc/net/route", "utf8").catch(() => "");
  return table.split("\n").flatMap((line) => {
    const [, destination = "", , , , , , mask = ""] = line.split("\t");
    if (!/^[0-9A-F]{8}$/.test(destination) || !/^[0-9A-F]{8}$/.test(mask)) return [];
    const bits = BigInt(`0x${mask}`).toString(2).replaceAll("0", "").length;
    if (bits === 0) return [];
    // The kernel prints the bytes of an address in the order of the machine, which is the reverse on x86 and arm64.
    return [`${[...Buffer.from(destination, "hex")].toReversed().join(".")}/${bits}`];
  });
}
