import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * Parses an IPv6 address without its zone. The URL parser first converts the address to hexadecimal groups, because
 * ipaddr.js mistakes the dotted form `::127.0.0.1` for an IPv4-mapped address.
 */
export function parseIpv6(ip: string): ipaddr.IPv6 {
  const { hostname } = new URL(`http://[${ip.replace(/%.*/, "")}]`);
  return ipaddr.IPv6.parse(hostname.slice(1, -1));
}

/**
 * A network of IPv6 addresses that contain an IPv4 address, for translation or tunnelling. `at` is the offset of the
 * IPv4 address in the 16 bytes of the IPv6 address.
 */
interface Tunnel {
  readonly network: [ipaddr.IPv6, number];
  readonly at: number;
  /**
   * The value that is combined by XOR with each byte of the embedded IPv4 address, because Teredo inverts these bytes.
   */
  readonly mask: number;
}

const tunnels: readonly Tunnel[] = [
  { network: ipaddr.IPv6.parseCIDR("::/96"), at: 12, mask: 0 },
  { network: ipaddr.IPv6.parseCIDR("::ffff:0:0:0/96"), at: 12, mask: 0 },
  { network: ipaddr.IPv6.parseCIDR("64:ff9b::/96"), at: 12, mask: 0 },
  { network: ipaddr.IPv6.parseCIDR("2002::/16"), at: 2, mask: 0 },
  { network: ipaddr.IPv6.parseCIDR("2001::/32"), at: 12, mask: 0xff },
];

/**
 * Returns the IPv4 address inside an IPv6 address for tunnelling or translation (such as 6to4 or NAT64). Undefined for
 * any other address, also for an IPv4-mapped one.
 */
export function extractTunnelledIpv4(address: ipaddr.IPv6): string | undefined {
  const found = tunnels.find(({ network }) => address.match(network));
  if (!found) return undefined;
  const bytes = address.toByteArray().slice(found.at, found.at + 4);
  return bytes.map((byte) => byte ^ found.mask).join(".");
}

/**
 * Returns true for a loopback address in any notation, and for the unspecified addresses (0.0.0.0 and ::), which also
 * lead to this machine.
 */
export function isLoopbackAddress(ip: string): boolean {
  return isInNetworks(ip, loopbackNetworks);
}

/** True for an address of a cloud's metadata service, which gives the machine's credentials to any program on it. */
export function isMetadataAddress(ip: string): boolean {
  return isInNetworks(ip, metadataNetworks);
}

interface Networks {
  readonly ipv4: readonly [ipaddr.IPv4, number][];
  readonly ipv6: readonly [ipaddr.IPv6, number][];
}

const loopbackNetworks: Networks = {
  ipv4: ["127.0.0.0/8", "0.0.0.0/8"].map((network) => ipaddr.IPv4.parseCIDR(network)),
  ipv6: ["::1/128", "::/128"].map((network) => ipaddr.IPv6.parseCIDR(network)),
};

/**
 * The addresses of cloud metadata services. IPv4: one that AWS, Azure, Google and others share, two for containers on
 * AWS, and one each of Alibaba, Azure and Oracle. IPv6: those of AWS and Google.
 */
const metadataNetworks: Networks = {
  ipv4: [
    "169.254.169.254/32",
    "169.254.170.2/32",
    "169.254.170.23/32",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "192.0.0.192/32",
  ].map((network) => ipaddr.IPv4.parseCIDR(network)),
  ipv6: ["fd00:ec2::/32", "fd20:ce::/32"].map((network) => ipaddr.IPv6.parseCIDR(network)),
};

function isInNetworks(ip: string, { ipv4, ipv6 }: Networks): boolean {
  const version = isIP(ip);
  if (version === 0) return false;
  if (version === 4) {
    const address = ipaddr.IPv4.parse(ip);
    return ipv4.some((network) => address.match(network));
  }
  const address = parseIpv6(ip);
  if (ipv6.some((network) => address.match(network))) return true;
  const inner = address.isIPv4MappedAddress()
    ? address.toIPv4Address().toString()
    : extractTunnelledIpv4(address);
  return inner !== undefined && isInNetworks(inner, { ipv4, ipv6 });
}
