import { access, readFile } from "node:fs/promises";
import { BlockList, isIPv4, isIPv6 } from "node:net";
import { AssistantError } from "../../assistant-error.ts";

/**
 * Checks the addresses of container listeners. They must be on loopback or on a bridge of this machine, because
 * containers connect there. Any other address would be reachable from a network.
 */

/** The kernel's information about this machine's networks. */
export interface HostNetworks {
  /** The routing table, in the format of /proc/net/route. */
  routes(): Promise<string>;
  isBridge(networkInterface: string): Promise<boolean>;
}

export const localNetworks: HostNetworks = {
  // The routing table is used instead of os.networkInterfaces(), which omits bridges that are down. A bridge without a
  // running container is down.
  routes: () => readFile("/proc/net/route", "utf8").catch(() => ""),
  isBridge: (name) =>
    access(`/sys/class/net/${name}/bridge`).then(
      () => true,
      () => false,
    ),
};

interface Subnet {
  readonly address: string;
  readonly prefix: number;
}

/**
 * The address ranges that container engines use for their networks: private, shared, link-local and unique local
 * addresses.
 */
const privateRanges: readonly Subnet[] = [
  { address: "10.0.0.0", prefix: 8 },
  { address: "172.16.0.0", prefix: 12 },
  { address: "192.168.0.0", prefix: 16 },
  { address: "100.64.0.0", prefix: 10 },
  { address: "169.254.0.0", prefix: 16 },
  { address: "fc00::", prefix: 7 },
];
const loopbackRanges: readonly Subnet[] = [{ address: "127.0.0.0", prefix: 8 }];

const getFamily = (address: string) => (isIPv6(address) ? "ipv6" : "ipv4");

/**
 * Parses networks and returns a filter that accepts clients of these networks. Throws AssistantError `invalid_request`
 * for a network that is not private.
 */
export function parseClientSubnets(subnets: readonly string[]): BlockList {
  const clients = new BlockList();
  for (const subnet of subnets) {
    const { address, prefix } = parseSubnet(subnet);
    const isFine = [...privateRanges, ...loopbackRanges].some(
      (range) => prefix >= range.prefix && isInSubnet(range, address),
    );
    if (!isFine) throw invalidListenerError(`${subnet} is not a private network`);
    clients.addSubnet(address, prefix, getFamily(address));
  }
  return clients;
}

/** Throws AssistantError `invalid_request` for an address that a container listener may not use. */
export async function assertListenerAddress(address: string, machine: HostNetworks): Promise<void> {
  if (!isIPv4(address)) throw invalidListenerError(`${address} is not an IPv4 address`);
  if (isLoopback(address)) return;
  if (!privateRanges.some((range) => isInSubnet(range, address)))
    throw invalidListenerError(`${address} is not a private address`);
  const name = findInterface(address, await machine.routes());
  if (name === undefined || !(await machine.isBridge(name)))
    throw invalidListenerError(
      `${address} is not on a bridge of this machine, through which containers connect`,
    );
}

export function isLoopback(address: string): boolean {
  return loopbackRanges.some((range) => isInSubnet(range, address));
}

/**
 * Returns the interface that is directly connected to the network of the address. Returns undefined if there is none,
 * or if the network is behind a gateway.
 */
export function findInterface(address: string, routes: string): string | undefined {
  const target = parseIpv4(address);
  return routes
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .find(([, destination = "", gateway, , , , , mask = ""]) => {
      const bits = fromHex(mask);
      // Routes through a gateway and the default route, which matches every address, are skipped.
      if (gateway !== "00000000" || bits === 0 || bits === undefined) return false;
      return (target & bits) >>> 0 === fromHex(destination);
    })?.[0];
}

/**
 * Parses a 32-bit number of /proc/net/route as little-endian, so a big-endian machine finds no route. Returns undefined
 * for the header line.
 */
function fromHex(word: string): number | undefined {
  return /^[0-9A-F]{8}$/i.test(word) ? Buffer.from(word, "hex").readUInt32LE() : undefined;
}

function parseIpv4(address: string): number {
  return Buffer.from(address.split(".").map(Number)).readUInt32BE();
}

function parseSubnet(subnet: string): Subnet {
  const [, address = "", prefix = ""] = /^([0-9a-f.:]+)\/(\d{1,3})$/i.exec(subnet) ?? [];
  const isSubnet = (isIPv4(address) && Number(prefix) <= 32) || isIPv6(address);
  if (!isSubnet || Number(prefix) > 128)
    throw invalidListenerError(
      `${subnet} is not a network in CIDR notation, for example 172.18.0.0/16`,
    );
  return { address, prefix: Number(prefix) };
}

function isInSubnet({ address, prefix }: Subnet, candidate: string): boolean {
  if (getFamily(address) !== getFamily(candidate)) return false;
  const list = new BlockList();
  list.addSubnet(address, prefix, getFamily(address));
  return list.check(candidate, getFamily(candidate));
}

function invalidListenerError(why: string): AssistantError {
  return new AssistantError("invalid_request", `the container listener cannot be opened: ${why}`);
}
