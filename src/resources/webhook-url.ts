import { BlockList, isIP } from "node:net";
import { BerthError } from "../base/errors.ts";

const URL_LENGTH_MAX = 2_048;

/**
 * Where clouds keep a machine's credentials, for anybody on the machine who asks: AWS, Azure, Google
 * and others; Amazon's containers; Alibaba; AWS on IPv6. Addresses of private networks are allowed:
 * that is where a home server's receivers are.
 */
const refusedAddresses = new BlockList();
for (const address of ["169.254.169.254", "169.254.170.2", "100.100.100.200"])
  refusedAddresses.addAddress(address, "ipv4");
refusedAddresses.addAddress("fd00:ec2::254", "ipv6");

/** True for an address that nothing is ever sent to. An IPv4 address inside an IPv6 one counts too. */
export function isRefusedAddress(address: string): boolean {
  const version = isIP(address);
  return version !== 0 && refusedAddresses.check(address, version === 6 ? "ipv6" : "ipv4");
}

export function refusedAddressError(address: string): BerthError {
  return new BerthError(
    "invalid_request",
    `nothing is sent to ${address}: it is where a cloud hands out a machine's credentials`,
    { hint: "give the URL of a receiver of your own" },
  );
}

/** The URL in its normal form. Throws BerthError `invalid_request`. */
export function checkWebhookUrl(text: string): string {
  if (text.length > URL_LENGTH_MAX)
    throw invalidUrlError(`longer than ${URL_LENGTH_MAX} characters`);
  const url = URL.parse(text) ?? undefined;
  if (!url) throw invalidUrlError("not a URL");
  if (url.protocol !== "https:" && url.protocol !== "http:")
    throw invalidUrlError(`${url.protocol.slice(0, -1)} is not http or https`);
  if (url.username !== "" || url.password !== "")
    throw invalidUrlError(
      "it may hold no user and no password: requests are signed with the secret instead",
    );
  if (url.hash !== "") throw invalidUrlError("it may hold no fragment (#...): none is ever sent");
  const host = getHost(url);
  if (isRefusedAddress(host)) throw refusedAddressError(host);
  return url.href;
}

/** The host without the brackets of an IPv6 address. */
export function getHost(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}

function invalidUrlError(what: string): BerthError {
  return new BerthError("invalid_request", `url: ${what}`, {
    hint: "write it as https://HOST/PATH or http://HOST:PORT/PATH",
  });
}
