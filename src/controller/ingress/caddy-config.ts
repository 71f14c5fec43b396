import type { Json } from "../../base/canonical-json.ts";
import type { ApiSite } from "./api-site.ts";
import { getLogFile, getStorageFolder } from "./caddy-certificates.ts";
import {
  buildServerRoutes,
  CERTIFICATE_PERMISSION_PATH,
  listApiCertifiedNames,
  listCertifiedNames,
} from "./caddy-routes.ts";
import { isAtLeast } from "./caddy-version.ts";
import { type DirectRouteSet, noDirectRoutes } from "./direct-routes.ts";
import type { Site } from "./site.ts";

export interface CaddySettings {
  /**
   * The folder with the route table, the certificates and Caddy's log. Caddy in a container sees this folder at the
   * same path.
   */
  readonly folder: string;
  readonly adminSocket: string;
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  readonly acmeEmail: string | undefined;
  /** The site of the API; absent if the ingress does not serve the API. */
  readonly api?: ApiSite | undefined;
  /** Caddy's version, such as 2.6.2. */
  readonly version: string;
}

export type CaddyConfig = { readonly [key: string]: Json };

/**
 * Builds Caddy's whole configuration. In versions before 2.7, Caddy closes WebSockets when it loads a configuration.
 * Apps without ingress options are therefore in the route table, so that the configuration changes only for ingress
 * options and for domains that need a public certificate. A change of the direct routes (`direct`) alone is no
 * reason to load the configuration again. Equal input gives an equal configuration.
 */
export function buildCaddyConfig(
  settings: CaddySettings,
  unordered: readonly Site[],
  direct: DirectRouteSet = noDirectRoutes,
): CaddyConfig {
  const { httpPort, httpsPort } = settings;
  const sites = unordered.toSorted((a, b) => (a.app < b.app ? -1 : 1));
  const server = (scheme: "http" | "https", port: number): Json => ({
    listen: [`:${port}`],
    // The time limit for the headers of a request protects against clients that send them slowly. The time for a body
    // is not limited.
    read_header_timeout: "1m",
    // HTTP/3 is off, because it would need a UDP port that the user has not opened.
    protocols: ["h1", "h2"],
    automatic_https: { disable: true },
    ...(scheme === "https" ? { tls_connection_policies: [{}] } : {}),
    ...buildServerRoutes(settings, sites, scheme, direct),
  });
  return {
    admin: { listen: `unix/${settings.adminSocket}`, config: { persist: false } },
    logging: {
      logs: {
        default: {
          level: "INFO",
          writer: {
            output: "file",
            filename: getLogFile(settings.folder),
            roll_size_mb: 10,
            roll_keep: 2,
          },
        },
      },
    },
    storage: { module: "file_system", root: getStorageFolder(settings.folder) },
    apps: {
      http: {
        ...(httpPort === undefined ? {} : { http_port: httpPort }),
        ...(httpsPort === undefined ? {} : { https_port: httpsPort }),
        servers: {
          ...(httpPort === undefined ? {} : { http: server("http", httpPort) }),
          ...(httpsPort === undefined ? {} : { https: server("https", httpsPort) }),
        },
      },
      ...(httpsPort === undefined ? {} : buildCertificateConfig(settings, sites)),
    },
  };
}

/**
 * Builds the configuration of certificates. Caddy requests the certificates of public names in advance, one by one.
 * Caddy's own authority signs a certificate for any other name at the first handshake, so that these names need no
 * change of the configuration. (One certificate for `*.localhost` would suffice if all programs accepted it, but
 * OpenSSL does not.)
 */
function buildCertificateConfig(
  settings: CaddySettings,
  sites: readonly Site[],
): { [key: string]: Json } {
  const { httpPort, httpsPort, acmeEmail, version } = settings;
  const names = [...listApiCertifiedNames(settings.api), ...sites.flatMap(listCertifiedNames)];
  const subjects = [...new Set(names)].toSorted();
  const acme = {
    module: "acme",
    ...(acmeEmail === undefined ? {} : { email: acmeEmail }),
    challenges: {
      ...(httpPort === undefined
        ? { http: { disabled: true } }
        : { http: { alternate_port: httpPort } }),
      "tls-alpn": { alternate_port: httpsPort ?? 443 },
    },
  };
  const endpoint = `http://127.0.0.1:${httpPort ?? 0}${CERTIFICATE_PERMISSION_PATH}`;
  const asked: Json = isAtLeast(version, 2, 8)
    ? { permission: { module: "http", endpoint } }
    : { ask: endpoint };
  return {
    tls: {
      ...(subjects.length === 0 ? {} : { certificates: { automate: subjects } }),
      automation: {
        policies: [
          ...(subjects.length === 0 ? [] : [{ subjects, issuers: [acme] }]),
          { issuers: [{ module: "internal" }], on_demand: true },
        ],
        // Without an HTTP port, Caddy cannot ask Berth if a name may have a certificate. Any name then gets a
        // certificate of Caddy's own authority.
        ...(httpPort === undefined ? {} : { on_demand: asked }),
      },
    },
    // Caddy would otherwise try to install the root certificate of its authority in the trust stores of the machine.
    pki: { certificate_authorities: { local: { install_trust: false } } },
  };
}
