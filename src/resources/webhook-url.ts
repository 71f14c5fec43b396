import { BerthError } from "../base/errors.ts";
import { isMetadataAddress } from "../base/ip-address.ts";

const URL_LENGTH_MAX = 2_048;

/**
 * Creates the error for a webhook whose URL leads to a cloud's metadata service. Webhooks to private networks are
 * allowed.
 */
export function refusedAddressError(address: string): BerthError {
  return new BerthError(
    "invalid_request",
    `nothing is sent to ${address}: it is the metadata service of a cloud, which gives out a machine's credentials`,
    { hint: "use the URL of the program that is to receive the webhook" },
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
  if (isMetadataAddress(host)) throw refusedAddressError(host);
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
