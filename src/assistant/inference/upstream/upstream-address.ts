import { isIPv4 } from "node:net";
import { AssistantError } from "../../assistant-error.ts";

/**
 * Parses the address of the system instance. Prompts are sent to it unencrypted, so it must be on this machine. Throws
 * AssistantError `invalid_request` for anything but `http://` and a loopback address.
 */
export function parseUpstreamAddress(text: string): URL {
  const url = URL.parse(text) ?? undefined;
  if (url?.protocol !== "http:" || !isLoopback(url.hostname))
    throw invalidAddressError(
      text,
      "the address must be on this machine, such as http://127.0.0.1:7777",
    );
  if (url.username !== "" || url.password !== "")
    throw invalidAddressError(
      "with a user",
      "the system instance has no password: remove the user and @",
    );
  if (!/^\/(v1\/?)?$/.test(url.pathname) || url.search !== "" || url.hash !== "")
    throw invalidAddressError(text, "the address must be a host and a port, without a path");
  return new URL(url.origin);
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));
}

function invalidAddressError(what: string, why: string): AssistantError {
  return new AssistantError(
    "invalid_request",
    `the upstream ${JSON.stringify(what.slice(0, 200))} cannot be used: ${why}`,
    { param: "upstream" },
  );
}
