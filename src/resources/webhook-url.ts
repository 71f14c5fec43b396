import { BlockList, isIP } from "node:net";
import { BerthError } from "../base/errors.ts";

const URL_LENGTH_MAX = 2_048;

/**
 * Addresses of the metadata services of clouds, which give the machine's credentials to any program on the machine:
 * AWS, Azure, Google and others; Amazon's containers; Alibaba; AWS on IPv6. Addresses of private networks are allowed,
 * because receivers may be in a home network.
 */
const refusedAddresses = new BlockList();
for (const address of ["169.254.169.254", "169.254.170.2", "100.100.100.200"])
  refusedAddresses.addAddress(address, "ipv4");
refusedAddresses.addAddress("fd00:ec2::254", "ipv6");

/**
 * Returns true for an address to which Berth never sends anything, also if it is an IPv4 address in IPv6-mapped form.
 */
export function isRefusedAddress(address: string): boolean {
  const version = isIP(address);
  return version !== 0 && refusedAddresses.check(address, version === 6 ? "ipv6" : "ipv4");
}

export function refusedAddressError(address: string): BerthError {
  return new BerthError(
    "invalid_request",
    `nothing is sent to ${address}: it is the metadata service of a cloud, which gives out a machine's credentials`,
    { hint: "use the URL of your own receiver" },
  );
}

/** Returns the normalized URL. Throws BerthError `invalid_request`. */
export function checkWebhookUrl(text: string): string {
  if (text.length > URL_LENGTH_MAX)
    throw invalidUrlError(`longer than ${URL_LENGTH_MAX} characters`);
  const url = URL.parse(text) ?? undefined;
  if (!url) throw invalidUrlError("not a URL");
  if (url.protocol !== "https:" && url.protocol !== "http:")
    throw invalidUrlError(`${url.protocol.slice(0, -1)} is not http or https`);
  if (url.username !== "" || url.password !== "")
    throw invalidUrlError(
      "the URL must not contain a user or a password: requests are signed with the secret instead",
    );
  if (url.hash !== "")
    throw invalidUrlError("the URL must not contain a fragment (#...), which is never sent");
  const host = getHost(url);
  if (isRefusedAddress(host)) throw refusedAddressError(host);
  return url.href;
}

/** Returns the host, without brackets for an IPv6 address. */
export function getHost(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}

function invalidUrlError(what: string): BerthError {
  return new BerthError("invalid_request", `url: ${what}`, {
    hint: "write the URL as https://HOST/PATH or http://HOST:PORT/PATH",
  });
}
