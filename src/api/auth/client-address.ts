import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";

/**
 * Returns the address of the client, which the limit of login attempts applies to. An entry of X-Forwarded-For that is
 * not an address counts as if the nearest proxy had sent the request itself: otherwise each invented text would count
 * as another client.
 */
export function getClientAddress({ ip, ips }: Pick<FastifyRequest, "ip" | "ips">): string {
  // The addresses in order, from the sender of the request to the client that the proxies report.
  const hops = ips ?? [ip];
  return hops.map(toAddress).findLast((address) => address !== undefined) ?? hops[0] ?? ip;
}

/**
 * Returns an address without the port that some proxies append and without its zone; undefined if the text is not an
 * address.
 */
function toAddress(text: string): string | undefined {
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1];
  const address = bracketed ?? text.replace(/^(\d+(?:\.\d+){3}):\d+$/, "$1");
  return isIP(address) === 0 ? undefined : address.replace(/%.*$/, "");
}
