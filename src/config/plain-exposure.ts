import { isIPv4 } from "node:net";

/** The hint for the warning of `describePlainExposure`. */
export const PLAIN_EXPOSURE_HINT =
  "set --tls-cert and --tls-key, or listen on 127.0.0.1 behind an SSH tunnel or a proxy with TLS";

/** Returns a warning if passwords and tokens for the API cross a network in plain text; undefined if they do not. */
export function describePlainExposure(host: string, hasTls: boolean): string | undefined {
  const isLoopback =
    host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
  return isLoopback || hasTls
    ? undefined
    : `the API listens on ${host} without TLS: passwords and tokens cross the network in plain text`;
}
