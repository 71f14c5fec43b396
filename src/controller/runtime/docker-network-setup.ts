import { BerthError } from "../../base/errors.ts";
import { KeyedMutex } from "../../base/mutex.ts";
import { divideSubnet, findReservedAddress } from "../reserved-addresses.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { hasLabels } from "./docker-containers.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";
import {
  createNetwork,
  findNetworks,
  foreignResourceError,
  type NamedNetwork,
  removeNetwork,
} from "./docker-networks.ts";
import type { Labels } from "./port.ts";

/**
 * Creates networks with reserved addresses. The engine accepts addresses from a client only in a network whose subnet
 * the client has chosen, but only the engine knows which subnets are free. Berth therefore lets the engine create the
 * network, removes it, and creates it again with the same subnet and with the lower half of this subnet as the range
 * of the engine's own choices.
 */
export class NetworkSetup {
  readonly #connection: DockerConnection;
  readonly #mutex = new KeyedMutex();
  /** The networks as they were last seen, by name. */
  readonly #known = new Map<string, NamedNetwork>();

  constructor(connection: DockerConnection) {
    this.#connection = connection;
  }

  ensure(name: string, labels: Labels, signal: AbortSignal): Promise<void> {
    return this.#mutex.runExclusive(name, () => this.#ensure(name, labels, signal));
  }

  /**
   * Returns the reserved address number `index` (counted from 0) of a network; undefined if the network has no such
   * address, or `ensure` has not been called for it.
   */
  findAddress(network: string, index: number | undefined): string | undefined {
    const reserved = this.#known.get(network)?.reserved;
    if (reserved === undefined || index === undefined) return undefined;
    return findReservedAddress(reserved, index);
  }

  async #ensure(name: string, labels: Labels, signal: AbortSignal): Promise<void> {
    let there = await findNetworks(this.#connection, name, signal);
    const isMissing = there.length === 0;
    const before = this.#known.get(name);
    if (isMissing) {
      await this.#create(name, labels, before, signal);
      there = await findNetworks(this.#connection, name, signal);
    }
    if (there.some((network) => !hasLabels(network.labels, labels)))
      throw foreignResourceError("network", name);
    // The engine allows several networks with the same name. Two concurrent calls, or a repeated call after a lost
    // reply, create two networks. No container can then be started on either of them.
    for (const surplus of there.slice(1)) await removeNetwork(this.#connection, surplus.id, signal);
    let [own] = there;
    // A network that an earlier call has ensured is not replaced, because containers may be about to use it.
    const mayReplace = isMissing || before === undefined;
    if (own && mayReplace && (await this.#isReplaceable(name, own, isMissing, signal)))
      own = await this.#replace(name, labels, own, signal);
    if (own) this.#known.set(name, own);
  }

  /**
   * Creates a network with the subnet of an earlier network if the subnet is still free, and otherwise with a subnet
   * that the engine chooses.
   */
  async #create(
    name: string,
    labels: Labels,
    earlier: NamedNetwork | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const subnet = earlier?.subnets.find((range) => divideSubnet(range) !== undefined);
    const divided = divideSubnet(subnet ?? "");
    if (subnet === undefined || !divided || (await this.#isPodman(signal)))
      return createNetwork(this.#connection, { name, labels }, signal);
    const range = { Subnet: subnet, IPRange: divided.assigned, Gateway: earlier?.gateway };
    try {
      await createNetwork(this.#connection, { name, labels, range }, signal);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // Another network uses the subnet now, so the engine chooses the subnet of the new network.
      await createNetwork(this.#connection, { name, labels }, signal);
    }
  }

  async #replace(
    name: string,
    labels: Labels,
    own: NamedNetwork,
    signal: AbortSignal,
  ): Promise<NamedNetwork | undefined> {
    try {
      // The engine refuses to remove a network that a running container uses. The network is then kept.
      await removeNetwork(this.#connection, own.id, signal);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return own;
    }
    await this.#create(name, labels, own, signal);
    return (await findNetworks(this.#connection, name, signal))[0];
  }

  /** True if the network can be replaced by one with reserved addresses, and no container refers to it. */
  async #isReplaceable(
    name: string,
    { id, reserved, subnets }: NamedNetwork,
    isNew: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (reserved !== undefined || subnets.every((subnet) => divideSubnet(subnet) === undefined))
      return false;
    if (await this.#isPodman(signal)) return false;
    if (isNew) return true;
    // The filter contains the name too, because a container that has never run refers to its network by name instead of
    // id.
    const filters = { network: [id, name] };
    const users = await this.#connection.call(
      "list the containers of the network",
      READ_LIMIT_MS,
      signal,
      (docker, abortSignal) => docker.listContainers({ all: true, filters, abortSignal }),
    );
    return users.length === 0;
  }

  /**
   * Returns true for Podman, for which Berth reserves no addresses: it has not been tested how Podman assigns
   * addresses.
   */
  async #isPodman(signal: AbortSignal): Promise<boolean> {
    return (await this.#connection.version(signal)).name === "podman";
  }
}

const isRefusal = (error: unknown) => error instanceof BerthError && error.code === "engine_error";
