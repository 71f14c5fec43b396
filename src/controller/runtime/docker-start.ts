import { BerthError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { connectNetwork, inspectContainer, shortenId } from "./docker-containers.ts";
import { getEngineMessage, getHttpStatus } from "./docker-errors.ts";
import { START_LIMIT_MS } from "./docker-limits.ts";
import { findNetworks } from "./docker-networks.ts";

/**
 * A container keeps the id of each network that it ran on. Where one was removed meanwhile, and made
 * anew, the engine refuses the start until the container is connected to the one that is there now.
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

/** True where there was a network to join instead of one that is gone. */
async function rejoinNetworks(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  const inspected = await inspectContainer(connection, id, signal);
  let hasJoined = false;
  for (const [name, endpoint] of Object.entries(inspected?.NetworkSettings.Networks ?? {})) {
    const there = await findNetworks(connection, name, signal);
    // Podman gives the name for an id.
    const known = new Set(["", name, ...there.map((network) => network.id)]);
    if (there.length === 0 || known.has(endpoint.NetworkID)) continue;
    // For a container that does not run this takes the place of what it was connected to.
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
        // To the engine a paused container runs, but not to those who wait for it.
        if (!/paused container/i.test(getEngineMessage(error))) throw error;
        await container.unpause({ abortSignal });
      }
    },
  );
}
