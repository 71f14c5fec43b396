import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { extractTunnelledIpv4, parseIpv6 } from "../../../base/ip-address.ts";
import type { AddressClass } from "../port.ts";

/** The class of an address, or the reason why no provider may have it. */
export type AddressVerdict =
  | { readonly kind: AddressClass }
  | { readonly kind: "refused"; readonly because: string };

interface NetworkRule<Address> {
  readonly network: [Address, prefixBits: number];
  readonly verdict: AddressVerdict;
}

/**
 * Classifies an IPv4 or IPv6 address in the notation of a resolver. An IPv4-mapped IPv6 address counts as the IPv4
 * address. An address for tunnelling or translation (NAT64, 6to4, Teredo and the like) is routed through other people's
 * machines, so the IPv4 address inside must be public; otherwise it would bypass the rules.
 */
export function classifyIp(ip: string): AddressVerdict {
  const version = isIP(ip);
  if (version === 0) return refused("no address");
  if (version === 4) return findVerdict(ipv4Rules, ipaddr.IPv4.parse(ip)) ?? { kind: "public" };
  const address = parseIpv6(ip);
  if (address.isIPv4MappedAddress()) return classifyIp(unmapIpv4(ip));
  const special = findVerdict(ipv6SpecialRules, address);
  if (special) return special;
  const inner = extractTunnelledIpv4(address);
  if (inner === undefined)
    return findVerdict(ipv6Rules, address) ?? refused("an address that is not assigned");
  return classifyIp(inner).kind === "public"
    ? { kind: "public" }
    : refused(`another notation of ${inner}`);
}

/** Returns the IPv4 address of an IPv4-mapped IPv6 address. Any other address is returned unchanged. */
export function unmapIpv4(ip: string): string {
  if (isIP(ip) !== 6) return ip;
  const address = parseIpv6(ip);
  return address.isIPv4MappedAddress() ? address.toIPv4Address().toString() : ip;
}

function refused(because: string): AddressVerdict {
  return { kind: "refused", because };
}

const linkLocal = refused("a link-local address, where cloud machines get their credentials");
const metadata = refused("the metadata service of a cloud provider");
const documentation = refused("an address reserved for documentation");
const benchmark = refused("an address reserved for network benchmarks");
const multicast = refused("a multicast address");
const reserved = refused("a reserved address");

/**
 * The rules for IPv4 addresses, from IANA's registries of special-purpose addresses. The first rule that matches
 * applies, so narrower networks come first.
 */
const ipv4Rules: readonly NetworkRule<ipaddr.IPv4>[] = [
  // The metadata services of Alibaba Cloud, Azure and Oracle Cloud. The other clouds use a link-local address.
  ipv4Rule("100.100.100.200/32", metadata),
  ipv4Rule("168.63.129.16/32", metadata),
  ipv4Rule("192.0.0.192/32", metadata),
  ipv4Rule(
    "0.0.0.0/32",
    refused("the unspecified address, which means every address of this machine"),
  ),
  ipv4Rule("0.0.0.0/8", reserved),
  ipv4Rule("10.0.0.0/8", { kind: "private" }),
  // The network that the customers of an internet provider share (CGNAT); overlay networks use it as well.
  ipv4Rule("100.64.0.0/10", { kind: "private" }),
  ipv4Rule("127.0.0.0/8", { kind: "loopback" }),
  ipv4Rule("169.254.0.0/16", linkLocal),
  ipv4Rule("172.16.0.0/12", { kind: "private" }),
  ipv4Rule("192.0.0.0/24", reserved),
  ipv4Rule("192.0.2.0/24", documentation),
  ipv4Rule("192.88.99.0/24", reserved),
  ipv4Rule("192.168.0.0/16", { kind: "private" }),
  ipv4Rule("198.18.0.0/15", benchmark),
  ipv4Rule("198.51.100.0/24", documentation),
  ipv4Rule("203.0.113.0/24", documentation),
  ipv4Rule("224.0.0.0/4", multicast),
  ipv4Rule("255.255.255.255/32", refused("the broadcast address")),
  ipv4Rule("240.0.0.0/4", reserved),
];

/**
 * These rules are checked before an IPv6 address is checked for an embedded IPv4 address, because `::` and `::1` would
 * also match the obsolete IPv4-compatible notation.
 */
const ipv6SpecialRules: readonly NetworkRule<ipaddr.IPv6>[] = [
  ipv6Rule("::/128", refused("the unspecified address, which means every address of this machine")),
  ipv6Rule("::1/128", { kind: "loopback" }),
];

const ipv6Rules: readonly NetworkRule<ipaddr.IPv6>[] = [
  // The networks of the metadata services of Amazon and Google. These rules precede `fc00::/7`, which contains both
  // networks.
  ipv6Rule("fd00:ec2::/32", metadata),
  ipv6Rule("fd20:ce::/32", metadata),
  ipv6Rule("fc00::/7", { kind: "private" }),
  ipv6Rule("fe80::/10", linkLocal),
  ipv6Rule("fec0::/10", reserved),
  ipv6Rule("ff00::/8", multicast),
  ipv6Rule("2001:2::/48", benchmark),
  ipv6Rule("2001:db8::/32", documentation),
  ipv6Rule("3fff::/20", documentation),
  ipv6Rule("2001::/23", reserved),
  ipv6Rule("2000::/3", { kind: "public" }),
];

function ipv4Rule(network: string, verdict: AddressVerdict): NetworkRule<ipaddr.IPv4> {
  return { network: ipaddr.IPv4.parseCIDR(network), verdict };
}

function ipv6Rule(network: string, verdict: AddressVerdict): NetworkRule<ipaddr.IPv6> {
  return { network: ipaddr.IPv6.parseCIDR(network), verdict };
}

function findVerdict<Address>(
  rows: readonly NetworkRule<Address>[],
  address: { match(network: [Address, number]): boolean },
): AddressVerdict | undefined {
  return rows.find(({ network }) => address.match(network))?.verdict;
}
