import type { DockerConnection } from "./docker-connection.ts";
import { getEngineMessage, isAddressRefused } from "./docker-errors.ts";
import { NETWORK_LIMIT_MS } from "./docker-limits.ts";

/** The connection of a container to a network, with the address that it asks for. */
export interface Endpoint {
  readonly aliases: readonly string[];
  readonly address: string | undefined;
}

export function buildEndpoint({ aliases, address }: Endpoint): Record<string, unknown> {
  return {
    Aliases: aliases,
    ...(address === undefined ? {} : { IPAMConfig: { IPv4Address: address } }),
  };
}

/** Connects a container to a network. If the engine refuses `endpoint.address`, the engine chooses an address. */
export async function connectNetwork(
  connection: DockerConnection,
  id: string,
  network: string,
  endpoint: Endpoint,
  signal: AbortSignal,
): Promise<void> {
  try {
    await connect(connection, id, network, endpoint, signal);
  } catch (error) {
    if (endpoint.address === undefined || !isAddressRefused(error)) throw error;
    await connect(connection, id, network, { ...endpoint, address: undefined }, signal);
  }
}

/**
 * Connects a stopped container to a network again. Disconnects the container first, because the engine would otherwise
 * keep the address of the existing connection. If Berth exits between the two calls, the reconciler connects the
 * container.
 */
export async function reconnectNetwork(
  connection: DockerConnection,
  id: string,
  network: string,
  endpoint: Endpoint,
  signal: AbortSignal,
): Promise<void> {
  await connection.call(
    `disconnect the container ${id.slice(0, 12)} from the network ${network}`,
    NETWORK_LIMIT_MS,
    signal,
    (_, bound) =>
      connection.request(
        {
          method: "POST",
          path: `/networks/${encodeURIComponent(network)}/disconnect`,
          body: { Container: id },
        },
        bound,
      ),
  );
  await connectNetwork(connection, id, network, endpoint, signal);
}

function connect(
  connection: DockerConnection,
  id: string,
  network: string,
  endpoint: Endpoint,
  signal: AbortSignal,
): Promise<void> {
  return connection.call(
    `connect the container ${id.slice(0, 12)} to the network ${network}`,
    NETWORK_LIMIT_MS,
    signal,
    async (_, bound) => {
      try {
        await connection.request(
          {
            method: "POST",
            path: `/networks/${encodeURIComponent(network)}/connect`,
            body: { Container: id, EndpointConfig: buildEndpoint(endpoint) },
          },
          bound,
        );
      } catch (error) {
        if (
          !/already (?:exists in|attached to|connected to) network|is already connected/i.test(
            getEngineMessage(error),
          )
        )
          throw error;
      }
    },
  );
}
