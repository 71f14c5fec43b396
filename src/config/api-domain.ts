import { ConfigError } from "./config-error.ts";

/** Throws ConfigError if the ingress cannot serve the API under `apiDomain` with these settings. */
export function checkApiDomain({
  apiDomain,
  ingress,
  httpsPort,
}: {
  readonly apiDomain: string | undefined;
  readonly ingress: string;
  readonly httpsPort: number | undefined;
}): void {
  if (apiDomain === undefined) return;
  if (ingress === "off")
    throw new ConfigError(
      `api_domain ${apiDomain} needs the ingress, but ingress is off`,
      "remove --ingress off, or serve the API over HTTPS with --tls-cert and --tls-key",
    );
  if (httpsPort === undefined)
    throw new ConfigError(
      `api_domain ${apiDomain} is served over HTTPS, but https_port is 0`,
      "set --https-port, or remove --api-domain",
    );
}
