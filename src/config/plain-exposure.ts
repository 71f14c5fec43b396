import { isIPv4 } from "node:net";

interface PlainExposure {
  readonly message: string;
  readonly hint: string;
}

/** Returns a warning if passwords and tokens for the API cross a network in plain text; undefined if they do not. */
export function findPlainExposure(
  host: string,
  { hasTls, apiDomain }: { readonly hasTls: boolean; readonly apiDomain: string | undefined },
): PlainExposure | undefined {
  const isLoopback =
    host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
  if (isLoopback || hasTls) return undefined;
  return {
    message: `the API listens on ${host} without TLS: passwords and tokens cross the network in plain text`,
    hint:
      apiDomain === undefined
        ? "set --api-domain, or --tls-cert and --tls-key, or listen on 127.0.0.1 behind an SSH tunnel or a proxy with TLS"
        : `listen on 127.0.0.1 (--listen): other machines reach the API at https://${apiDomain}`,
  };
}
