import ipaddr from "ipaddr.js";

/** The prefix of a stack's subnet: 61 addresses for containers. */
const SUBNET_PREFIX = 26;

/**
 * Returns the first /26 of the IPv4 range `pool` that overlaps none of the `used` subnets; undefined if there is none.
 * Ignores used subnets that are not IPv4.
 */
export function findFreeSubnet(pool: string, used: readonly string[]): string | undefined {
  const range = parseRange(pool);
  if (!range) return undefined;
  const taken = used.map(parseRange).filter((item) => item !== undefined);
  const size = 2 ** (32 - SUBNET_PREFIX);
  let { first } = range;
  while (first + size - 1 <= range.last) {
    const last = first + size - 1;
    const overlapping = taken.find((item) => item.last >= first && item.first <= last);
    if (!overlapping) return `${formatAddress(first)}/${SUBNET_PREFIX}`;
    first += size * Math.ceil((overlapping.last + 1 - first) / size);
  }
  return undefined;
}

/** Returns the first and the last address of an IPv4 subnet as numbers; undefined for any other text. */
function parseRange(subnet: string): { readonly first: number; readonly last: number } | undefined {
  if (!ipaddr.IPv4.isValidCIDR(subnet)) return undefined;
  const [address, prefix] = ipaddr.IPv4.parseCIDR(subnet);
  const size = 2 ** (32 - prefix);
  const number = address.octets.reduce((sum, octet) => sum * 256 + octet, 0);
  const first = number - (number % size);
  return { first, last: first + size - 1 };
}

function formatAddress(number: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join(".");
}
