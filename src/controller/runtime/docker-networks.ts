import { isIPv4 } from "node:net";
import { BerthError } from "../../base/errors.ts";
import { APP, INSTANCE } from "../labels.ts";
import { divideSubnet } from "../reserved-addresses.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { buildLabelFilter, hasLabels } from "./docker-containers.ts";
import { getEngineMessage, getHttpStatus } from "./docker-errors.ts";
import { getValueAt, textAt, textsAt } from "./docker-json.ts";
import { NETWORK_LIMIT_MS, READ_LIMIT_MS, VOLUME_LIMIT_MS } from "./docker-limits.ts";
import type { Labels, ObservedVolume } from "./port.ts";

export interface NamedNetwork {
  readonly id: string;
  readonly name: string;
  readonly labels: Labels;
  readonly subnets: readonly string[];
  /** The range of reserved addresses; undefined if the network has none. */
  readonly reserved: string | undefined;
  /** The IPv4 address that the engine's machine has in this network. */
  readonly gateway: string | undefined;
}

/** Returns the networks with this name, oldest first, so that concurrent callers keep the same one. */
export async function findNetworks(
  connection: DockerConnection,
  name: string,
  signal: AbortSignal,
): Promise<readonly NamedNetwork[]> {
  // The engine also returns networks whose names only contain the requested name, so the names are compared here.
  const found = await queryNetworks(
    connection,
    `inspect the network ${name}`,
    { name: [name] },
    signal,
  );
  return found.filter((network) => network.name === name);
}

/** Returns the networks that have all of these labels, each `KEY` or `KEY=VALUE`, oldest first. */
export function listNetworks(
  connection: DockerConnection,
  labels: readonly string[],
  signal: AbortSignal,
): Promise<readonly NamedNetwork[]> {
  return queryNetworks(connection, "list the networks", { label: labels }, signal);
}

async function queryNetworks(
  connection: DockerConnection,
  what: string,
  filter: Readonly<Record<string, readonly string[]>>,
  signal: AbortSignal,
): Promise<readonly NamedNetwork[]> {
  const filters = encodeURIComponent(JSON.stringify(filter));
  const found = await connection.call(what, READ_LIMIT_MS, signal, (_, bound) =>
    connection.request({ method: "GET", path: `/networks?filters=${filters}` }, bound),
  );
  return (Array.isArray(found) ? found : [])
    .toSorted((a, b) => getSortKey(a).localeCompare(getSortKey(b)))
    .map((network) => ({
      id: textAt(network, "Id") ?? "",
      name: textAt(network, "Name") ?? "",
      labels: textsAt(network, "Labels"),
      subnets: parseSubnets(getValueAt(network, "IPAM", "Config")),
      reserved: parseReserved(getValueAt(network, "IPAM", "Config")),
      gateway: parseGateway(getValueAt(network, "IPAM", "Config")),
    }));
}

function parseSubnets(ranges: unknown): string[] {
  return (Array.isArray(ranges) ? ranges : [])
    .map((range: unknown) => textAt(range, "Subnet"))
    .filter((subnet) => subnet !== undefined);
}

/** Returns the reserved half of a subnet if the engine assigns addresses only from the other half. */
function parseReserved(ranges: unknown): string | undefined {
  for (const range of Array.isArray(ranges) ? ranges : []) {
    const divided = divideSubnet(textAt(range, "Subnet") ?? "");
    if (divided && textAt(range, "IPRange") === divided.assigned) return divided.reserved;
  }
  return undefined;
}

/**
 * Returns the gateway of a network. Docker omits the gateway if the user did not choose it. The gateway is then the
 * first address of the network.
 */
function parseGateway(ranges: unknown): string | undefined {
  for (const range of Array.isArray(ranges) ? ranges : []) {
    const [subnet = ""] = textAt(range, "Subnet")?.split("/") ?? [];
    if (isIPv4(subnet)) return textAt(range, "Gateway") || subnet.replace(/\.0$/, ".1");
  }
  return undefined;
}

const getSortKey = (network: unknown): string =>
  `${textAt(network, "Created")} ${textAt(network, "Id")}`;

/** A subnet of a network, with the names of the fields in the Docker API. */
export interface AddressRange {
  readonly Subnet: string;
  readonly IPRange?: string;
  readonly Gateway?: string | undefined;
}

/** Creates a network; without a range, the engine chooses a subnet. Does nothing if there is one of this name. */
export async function createNetwork(
  connection: DockerConnection,
  {
    name,
    labels,
    range,
  }: { readonly name: string; readonly labels: Labels; readonly range?: AddressRange },
  signal: AbortSignal,
): Promise<void> {
  await connection.call(
    `create the network ${name}`,
    NETWORK_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      try {
        await docker.createNetwork({
          Name: name,
          Driver: "bridge",
          Labels: { ...labels },
          CheckDuplicate: true,
          ...(range === undefined ? {} : { IPAM: { Config: [range] } }),
          abortSignal,
        });
      } catch (error) {
        if (getHttpStatus(error) !== 409) throw error;
      }
    },
  );
}

export async function networkSubnets(
  connection: DockerConnection,
  name: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  return (await findNetworks(connection, name, signal)).flatMap((network) => network.subnets);
}

export async function reservedRange(
  connection: DockerConnection,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  return (await findNetworks(connection, name, signal))[0]?.reserved;
}

/**
 * Docker's default network, through whose gateway containers reach the machine. Podman has no network of this name;
 * there, containers reach the machine through the gateway of their own network.
 */
const DEFAULT_NETWORK = "bridge";

export async function hostGateway(
  connection: DockerConnection,
  network: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const [bridge] = await findNetworks(connection, DEFAULT_NETWORK, signal);
  if (bridge) return bridge.gateway;
  const [own] = await findNetworks(connection, network, signal);
  return own?.gateway;
}

export async function removeNetwork(
  connection: DockerConnection,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  await connection.call(
    `remove the network ${name}`,
    NETWORK_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      try {
        await docker.getNetwork(encodeURIComponent(name)).remove({ abortSignal });
      } catch (error) {
        if (
          getHttpStatus(error) === 404 ||
          /active endpoints|being used|in use/i.test(getEngineMessage(error))
        )
          return;
        throw error;
      }
    },
  );
}

export async function ensureVolume(
  connection: DockerConnection,
  name: string,
  labels: Labels,
  signal: AbortSignal,
): Promise<void> {
  // One call suffices, because creating a volume that exists returns that volume.
  const there = await connection.call(
    `create the volume ${name}`,
    VOLUME_LIMIT_MS,
    signal,
    (_, bound) =>
      connection.request(
        { method: "POST", path: "/volumes/create", body: { Name: name, Labels: labels } },
        bound,
      ),
  );
  const found = textsAt(there, "Labels");
  if (hasLabels(found, labels)) return;
  const owner = found[INSTANCE] === labels[INSTANCE] ? found[APP] : undefined;
  if (owner === undefined) throw foreignResourceError("volume", name);
  throw new BerthError("name_clash", `the volume ${name} belongs to the app ${owner}`, {
    hint: "choose another name for the volume in spec.volumes, or for the app: the engine's name of the volume consists of both",
  });
}

export async function removeVolume(
  connection: DockerConnection,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  await connection.call(
    `remove the volume ${name}`,
    VOLUME_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      try {
        await docker.getVolume(encodeURIComponent(name)).remove({ abortSignal });
      } catch (error) {
        if (getHttpStatus(error) !== 404) throw error;
      }
    },
  );
}

export async function listVolumes(
  connection: DockerConnection,
  filter: { readonly instance: string; readonly app?: string },
  signal: AbortSignal,
): Promise<ObservedVolume[]> {
  const listed = await connection.call(
    "list the volumes",
    READ_LIMIT_MS,
    signal,
    (docker, abortSignal) =>
      docker.listVolumes({ filters: { label: buildLabelFilter(filter) }, abortSignal }),
  );
  return (listed.Volumes ?? []).map((volume) => ({
    name: volume.Name,
    labels: volume.Labels ?? {},
  }));
}

export function foreignResourceError(what: "network" | "volume", name: string): BerthError {
  return new BerthError(
    "name_clash",
    `the ${what} ${name} already exists and does not belong to Berth`,
    {
      hint: `if nothing needs the ${what}, remove it: docker ${what} rm ${name}`,
    },
  );
}
