import { BerthError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { inspectContainer, shortenId } from "./docker-containers.ts";
import { connectNetwork, type Endpoint, reconnectNetwork } from "./docker-endpoints.ts";
import { getEngineMessage, getHttpStatus, isAddressRefused } from "./docker-errors.ts";
import { textAt } from "./docker-json.ts";
import { START_LIMIT_MS } from "./docker-limits.ts";
import { findNetworks } from "./docker-networks.ts";

/** The maximum number of starts of a container: two of them follow repairs of its network and of its address. */
const ATTEMPTS_MAX = 3;

/**
 * Starts a container. If the engine refuses the start for one of these two reasons, connects the container again:
 * - A network of the container was removed and created again. The container stores the id of the removed network.
 * - Another container has the container's address. The container is connected without an address of its own, so the
 *   engine chooses another address, also at each later start.
 */
export async function startContainer(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await tryStart(connection, id, signal);
      return;
    } catch (error) {
      if (!(error instanceof BerthError) || error.code !== "engine_error") throw error;
      const isReconnected =
        attempt < ATTEMPTS_MAX &&
        (isAddressRefused(error)
          ? await giveUpAddresses(connection, id, signal)
          : await rejoinNetworks(connection, id, signal));
      if (!isReconnected) throw error;
    }
  }
}

/** Makes the engine choose the addresses of a stopped container. Returns false if the engine chooses them already. */
async function giveUpAddresses(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  const chosen = (await listEndpoints(connection, id, signal)).filter(({ address }) => address);
  for (const { network, aliases } of chosen)
    await reconnectNetwork(connection, id, network, { aliases, address: undefined }, signal);
  return chosen.length > 0;
}

/**
 * If a network of the container was removed, connects the container to the existing network with this name. Returns
 * true if it has connected the container.
 */
async function rejoinNetworks(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  let hasJoined = false;
  for (const { network, networkId, aliases, address } of await listEndpoints(
    connection,
    id,
    signal,
  )) {
    const there = await findNetworks(connection, network, signal);
    // Podman stores the name of the network where Docker stores its id, so the name counts as known too.
    const known = new Set(["", network, ...there.map((item) => item.id)]);
    if (there.length === 0 || known.has(networkId)) continue;
    // Connecting a stopped container that requests no address replaces its endpoint in the removed network. Only a
    // container that requests an address has to be disconnected first.
    const join = address === undefined ? connectNetwork : reconnectNetwork;
    await join(connection, id, network, { aliases, address }, signal);
    hasJoined = true;
  }
  return hasJoined;
}

interface StoredEndpoint extends Endpoint {
  readonly network: string;
  readonly networkId: string;
}

async function listEndpoints(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<StoredEndpoint[]> {
  const inspected = await inspectContainer(connection, id, signal);
  return Object.entries(inspected?.NetworkSettings.Networks ?? {}).map(([network, endpoint]) => ({
    network,
    networkId: endpoint.NetworkID,
    aliases: endpoint.Aliases ?? [],
    address: textAt(endpoint, "IPAMConfig", "IPv4Address") || undefined,
  }));
}

async function tryStart(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  await connection.call(
    `start the container ${shortenId(id)}`,
    START_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      const container = docker.getContainer(encodeURIComponent(id));
      try {
        await container.start({ abortSignal });
      } catch (error) {
        if (getHttpStatus(error) === 304) return;
        // The engine counts a paused container as running and refuses to start it, so the container is unpaused.
        if (!/paused container/i.test(getEngineMessage(error))) throw error;
        await container.unpause({ abortSignal });
      }
    },
  );
}
