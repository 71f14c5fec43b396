/**
 * IPv4 addresses of a network that only Berth assigns: the upper half of a subnet. The engine assigns the addresses of
 * the lower half to containers that ask for none. Two addresses that differ only in the last bit are a pair: a
 * replica's container and its successor in the next version of the App use the two addresses in turn.
 */

/** The shortest prefix of a subnet that Berth divides into two halves. */
const PREFIX_MIN = 8;
/** The longest prefix of a subnet that Berth divides. A smaller subnet has too few addresses for two halves. */
const PREFIX_MAX = 28;

export interface DividedSubnet {
  /** The range, such as 172.18.0.0/17, from which the engine assigns addresses. */
  readonly assigned: string;
  /** The range, such as 172.18.128.0/17, from which only Berth assigns addresses. */
  readonly reserved: string;
}

/** Halves an IPv4 subnet such as 172.18.0.0/16. Returns undefined for IPv6, and for a subnet that is too small. */
export function divideSubnet(subnet: string): DividedSubnet | undefined {
  const range = parseRange(subnet);
  if (!range || range.prefix < PREFIX_MIN || range.prefix > PREFIX_MAX) return undefined;
  const prefix = range.prefix + 1;
  return {
    assigned: `${formatAddress(range.first)}/${prefix}`,
    reserved: `${formatAddress(range.first + range.count / 2)}/${prefix}`,
  };
}

/** Returns the address with this number, counted from 0, of a reserved range; undefined if the range has fewer. */
export function findReservedAddress(reserved: string, index: number): string | undefined {
  const range = parseRange(reserved);
  // The last two addresses are excluded: they are a pair (see `findPairedAddress`) with the broadcast address.
  if (!range || index < 0 || index >= range.count - 2) return undefined;
  return formatAddress(range.first + index);
}

/**
 * Returns the address that differs from `address` only in the last bit; undefined if `address` is not in the reserved
 * range, or is one of its last two addresses.
 */
export function findPairedAddress(reserved: string, address: string): string | undefined {
  const range = parseRange(reserved);
  const value = parseAddress(address);
  if (!range || value === undefined || value < range.first) return undefined;
  return findReservedAddress(reserved, getOther(value - range.first));
}

/** Returns the last bit of an address, which distinguishes the two addresses of a pair. */
export function getPlaceInPair(address: string): 0 | 1 {
  return (parseAddress(address) ?? 0) % 2 === 0 ? 0 : 1;
}

const getOther = (index: number) => (index % 2 === 0 ? index + 1 : index - 1);

function parseRange(text: string): { first: number; count: number; prefix: number } | undefined {
  const [address = "", bits = ""] = text.split("/");
  const first = parseAddress(address);
  const prefix = Number(bits);
  if (first === undefined || !/^\d{1,2}$/.test(bits) || prefix > 32) return undefined;
  const count = 2 ** (32 - prefix);
  return { first: first - (first % count), count, prefix };
}

function parseAddress(text: string): number | undefined {
  if (!/^\d{1,3}(?:\.\d{1,3}){3}$/.test(text)) return undefined;
  return text.split(".").reduce((value, part) => value * 256 + Number(part), 0);
}

function formatAddress(value: number): string {
  return [2 ** 24, 2 ** 16, 2 ** 8, 1].map((unit) => Math.floor(value / unit) % 256).join(".");
}
