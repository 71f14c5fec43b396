import { BerthError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { connectNetwork, inspectContainer, shortenId } from "./docker-containers.ts";
import { getEngineMessage, getHttpStatus } from "./docker-errors.ts";
import { START_LIMIT_MS } from "./docker-limits.ts";
import { findNetworks } from "./docker-networks.ts";

/**
 * Starts a container. A container stores the id of each network that it ran on. If such a network was removed and
 * created again, the engine refuses the start until the container is connected to the new network.
 */
export async function startContainer(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await tryStart(connection, id, signal);
  } catch (error) {
    if (!(error instanceof BerthError) || error.code !== "engine_error") throw error;
    if (!(await rejoinNetworks(connection, id, signal))) throw error;
    await tryStart(connection, id, signal);
  }
}

/**
 * Connects a container to the new network if a network of the container is missing. Returns true if it has connected
 * the container.
 */
async function rejoinNetworks(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  const inspected = await inspectContainer(connection, id, signal);
  let hasJoined = false;
  for (const [name, endpoint] of Object.entries(inspected?.NetworkSettings.Networks ?? {})) {
    const there = await findNetworks(connection, name, signal);
    // Podman stores the name of the network instead of its id, so the name is accepted too.
    const known = new Set(["", name, ...there.map((network) => network.id)]);
    if (there.length === 0 || known.has(endpoint.NetworkID)) continue;
    // In a stopped container, this call replaces the endpoint in the removed network.
    await connectNetwork(connection, id, name, endpoint.Aliases ?? [], signal);
    hasJoined = true;
  }
  return hasJoined;
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
