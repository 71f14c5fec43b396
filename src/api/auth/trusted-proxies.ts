import { BlockList, isIP } from "node:net";
import { INGRESS_ADDRESS } from "../../base/http/ingress-connections.ts";

/**
 * Returns Fastify's `trustProxy` function, which returns true for the address of a trusted proxy. `request.ip` is
 * then the address that the nearest trusted proxy reports: the last one in X-Forwarded-For that is not itself a
 * trusted proxy, so that a client cannot choose it. The function is first called with the sender of the request
 * (`hop` 0). The ingress is trusted only as that sender.
 */
export function createProxyCheck(
  proxies: readonly string[],
): (address: string, hop: number) => boolean {
  const known = new BlockList();
  for (const proxy of proxies) {
    const [address = "", bits] = proxy.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (bits === undefined) known.addAddress(address, family);
    else known.addSubnet(address, Number(bits), family);
  }
  return (address, hop) => {
    if (address === INGRESS_ADDRESS) return hop === 0;
    const plain = address.replace(/^::ffff:(?=\d+\.)/i, "");
    const version = isIP(plain);
    return version !== 0 && known.check(plain, version === 6 ? "ipv6" : "ipv4");
  };
}
