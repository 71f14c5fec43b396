import { access, readFile } from "node:fs/promises";
import { BlockList, isIPv4, isIPv6 } from "node:net";
import { AssistantError } from "../../assistant-error.ts";

/**
 * Where a door may be: on loopback, or on a bridge of this machine, which is where containers are. Never on
 * an address that leads to a network: whoever asks for that has made a mistake, and it must not count.
 */

/** What the kernel says of this machine's networks. */
export interface HostNetworks {
  /** The table of routes, as in /proc/net/route. */
  routes(): Promise<string>;
  isBridge(networkInterface: string): Promise<boolean>;
}

export const localNetworks: HostNetworks = {
  // Not os.networkInterfaces(): a bridge without a running container is down, and left out there.
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

/** Private use, shared address space, link-local, unique local: what engines give their networks. */
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

/** Which of its clients a door lets in. Throws AssistantError `invalid_request` for what is no private network. */
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

/** Throws AssistantError `invalid_request` where a door may not be there. */
export async function assertListenerAddress(address: string, machine: HostNetworks): Promise<void> {
  if (!isIPv4(address)) throw invalidListenerError(`${address} is not an address of IPv4`);
  if (isLoopback(address)) return;
  if (!privateRanges.some((range) => isInSubnet(range, address)))
    throw invalidListenerError(`${address} is not a private address`);
  const name = findInterface(address, await machine.routes());
  if (name === undefined || !(await machine.isBridge(name)))
    throw invalidListenerError(
      `${address} is not on a bridge of this machine, where containers are`,
    );
}

export function isLoopback(address: string): boolean {
  return loopbackRanges.some((range) => isInSubnet(range, address));
}

/** The interface on whose own network the address is; undefined where that is none, or behind a gateway. */
export function findInterface(address: string, routes: string): string | undefined {
  const target = parseIpv4(address);
  return routes
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .find(([, destination = "", gateway, , , , , mask = ""]) => {
      const bits = fromHex(mask);
      // The default route leads everywhere, and has no network of its own.
      if (gateway !== "00000000" || bits === 0 || bits === undefined) return false;
      return (target & bits) >>> 0 === fromHex(destination);
    })?.[0];
}

/** Little-endian, as on every machine that Node's builds of today run on; undefined for the line of heads. */
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
    throw invalidListenerError(`${subnet} is not a network, such as 172.18.0.0/16`);
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
