import type { Json } from "../../base/canonical-json.ts";
import { type ApiSite, buildApiRoute } from "./api-site.ts";
import { getCertificatePattern, getStorageFolder } from "./caddy-certificates.ts";
import { buildDirectRoutes } from "./caddy-direct-routes.ts";
import { escapePlaceholders, pageHandler, RETRY_LATER, RETRY_SOON } from "./caddy-handlers.ts";
import type { DirectRouteSet } from "./direct-routes.ts";
import { brokenPage, unavailablePage, unknownPage } from "./error-pages.ts";
import { hostPattern } from "./folder-route-table.ts";
import { removeForgedHeadersRoute } from "./forged-headers-route.ts";
import { normalizeHostRoute } from "./normalize-host-route.ts";
import { internalPattern, isInternalName, isTableOnly, isWildcard, type Site } from "./site.ts";
import {
  buildRetryRoute,
  buildTableRoutes,
  getTableFolder,
  PROXY_FAILED,
  rethrowRoute,
} from "./table-routes.ts";

/** The path of Caddy's permission requests at the first handshake for a name. */
export const CERTIFICATE_PERMISSION_PATH = "/.well-known/berth/certificate";
const ACME_PATH = "/.well-known/acme-challenge/*";

export interface RouteSettings {
  /** The folder of the ingress, which contains the route table. */
  readonly folder: string;
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  readonly version: string;
  readonly api?: ApiSite | undefined;
}

type Scheme = "http" | "https";
type CaddyRoute = { readonly [key: string]: Json };
type CaddyHandler = { readonly [key: string]: Json };

/** Returns the names of a site that have a certificate of a public authority, including names that are redirected. */
export function listCertifiedNames(site: Site): string[] {
  const names = [...site.domains, ...site.redirects.map(({ from }) => from)];
  return names.filter((name) => hasPublicCertificate(site, name));
}

/** Returns the domain of the API in a list; an empty list if the API has no certificate of a public authority. */
export function listApiCertifiedNames(api: ApiSite | undefined): string[] {
  return api === undefined || isInternalName(api.domain) ? [] : [api.domain];
}

/** True for a domain with a certificate of a public authority. Its HTTP requests are redirected to HTTPS. */
function hasPublicCertificate(site: Site, domain: string): boolean {
  return site.https && !isInternalName(domain) && !isWildcard(domain);
}

/**
 * Builds the routes of one server, in order: removal of forged headers, direct routes (which serve most requests), the
 * endpoint at which Caddy asks if a name may have a certificate, normalisation of host names, the API, redirects, Apps
 * with ingress options (the longest path first), all other Apps through the route table, Apps of whole subtrees
 * (`*.example.org`), and the error page.
 */
export function buildServerRoutes(
  settings: RouteSettings,
  sites: readonly Site[],
  scheme: Scheme,
  direct: DirectRouteSet,
): { readonly [key: string]: Json } {
  const withOptions = sites
    .filter((site) => !isTableOnly(site))
    .toSorted((a, b) => b.pathPrefix.length - a.pathPrefix.length);
  const table = { ...settings, path: "/hosts/{http.request.host}" };
  const redirected = new Set(scheme === "http" ? listHttpsRedirects(settings, sites) : []);
  return {
    routes: [
      removeForgedHeadersRoute,
      ...buildDirectRoutes(settings, direct, redirected),
      ...(scheme === "http" ? [buildCertificatePermissionRoute(settings, sites)] : []),
      normalizeHostRoute,
      // The API has no route over plain HTTP, because passwords and tokens must not be sent unencrypted.
      ...(settings.api && scheme === "https"
        ? [buildApiRoute(settings.version, settings.api)]
        : []),
      ...buildRedirectRoutes(settings, sites, scheme),
      ...(scheme === "http" ? buildHttpsRedirects(settings, sites) : []),
      ...withOptions.flatMap((site) =>
        buildSiteRoutes(settings, site, (name) => !isWildcard(name)),
      ),
      ...buildTableRoutes(table, hostMatcher),
      ...withOptions.flatMap((site) => buildSiteRoutes(settings, site, isWildcard)),
      { handle: [pageHandler(404, unknownPage)], terminal: true },
    ],
    errors: {
      routes: [buildRetryRoute(table, hostMatcher, [brokenRoute]), brokenRoute],
    },
  };
}

/** The error page for an App that accepts no connection, or closes the connection too early. */
const brokenRoute: CaddyRoute = {
  match: [{ vars_regexp: { "{http.error.status_code}": { pattern: PROXY_FAILED } } }],
  handle: [pageHandler("{http.error.status_code}", brokenPage)],
  terminal: true,
};

/**
 * Matches only host names that can be file names in the route table, because Caddy does not escape
 * `{http.request.host}` in paths.
 */
const hostMatcher: CaddyRoute = {
  header_regexp: { Host: { pattern: hostPattern.replace(/\$$/, "(?::[0-9]+)?$") } },
};

/** Builds the routes of one App, for those of its domains for which `of` returns true. */
function buildSiteRoutes(
  settings: RouteSettings,
  site: Site,
  isWanted: (domain: string) => boolean,
): CaddyRoute[] {
  const host = site.domains.filter(isWanted);
  if (host.length === 0) return [];
  const path = site.pathPrefix;
  const table = {
    ...settings,
    path: `/apps/${site.app}`,
    strippedPrefix: site.stripPrefix ? path : "",
  };
  const errors = { routes: [buildRetryRoute(table, {}, [rethrowRoute]), rethrowRoute] };
  const routes: CaddyRoute[] = [];
  if (site.maintenance === undefined) {
    if (site.users) routes.push({ handle: [basicAuthHandler(site.users)] });
    if (path !== "" && site.stripPrefix)
      routes.push({
        handle: [{ handler: "rewrite", strip_path_prefix: escapePlaceholders(path) }],
      });
    routes.push(...buildTableRoutes(table, {}), {
      handle: [pageHandler(503, unavailablePage, RETRY_SOON)],
      terminal: true,
    });
  } else {
    routes.push({ handle: [pageHandler(503, site.maintenance, RETRY_LATER)], terminal: true });
  }
  return [
    {
      match: [
        {
          host,
          ...(path === "" ? {} : { path_regexp: { pattern: `^${escapeRegExp(path)}(?:/|$)` } }),
        },
      ],
      handle: [{ handler: "subroute", routes, errors }],
      terminal: true,
    },
  ];
}

function buildRedirectRoutes(
  settings: RouteSettings,
  sites: readonly Site[],
  scheme: Scheme,
): CaddyRoute[] {
  return sites.flatMap((site) =>
    site.redirects.map(({ from, to, permanent }): CaddyRoute => {
      const own = site.domains[0] ?? "";
      const secure = settings.httpsPort !== undefined && hasPublicCertificate(site, own);
      const base = to ?? buildOrigin(settings, secure ? "https" : scheme, own);
      const location = `${escapePlaceholders(base)}{http.request.uri}`;
      const needsCertificate = to === undefined && secure;
      return {
        match: [{ host: [from] }],
        handle: [
          permanent && needsCertificate
            ? buildCertifiedRedirect(settings, own, location)
            : redirectHandler(permanent ? 308 : 307, location),
        ],
        terminal: true,
      };
    }),
  );
}

/**
 * Redirects to HTTPS permanently only if the name has a certificate, because browsers would remember a permanent
 * redirect to an address that does not answer yet. Caddy looks for the certificate's file at each request, so that a
 * new certificate needs no change of the configuration.
 */
function buildCertifiedRedirect(
  settings: RouteSettings,
  name: string,
  location: string,
): CaddyHandler {
  const file = {
    root: getStorageFolder(settings.folder),
    try_files: [getCertificatePattern(name)],
  };
  return {
    handler: "subroute",
    routes: [
      { match: [{ file }], handle: [redirectHandler(308, location)], terminal: true },
      { handle: [redirectHandler(307, location)] },
    ],
  };
}

/** Returns the domains whose HTTP requests are redirected to HTTPS. */
function listHttpsRedirects(settings: RouteSettings, sites: readonly Site[]): string[] {
  if (settings.httpsPort === undefined) return [];
  return [
    ...(settings.api === undefined ? [] : [settings.api.domain]),
    ...sites.flatMap((site) => site.domains.filter((name) => hasPublicCertificate(site, name))),
  ];
}

/**
 * Redirects HTTP to HTTPS. Certificate authorities still reach the HTTP challenges, because Caddy answers these before
 * any route.
 */
function buildHttpsRedirects(settings: RouteSettings, sites: readonly Site[]): CaddyRoute[] {
  const host = listHttpsRedirects(settings, sites);
  if (host.length === 0) return [];
  const port = settings.httpsPort === 443 ? "" : `:${settings.httpsPort}`;
  return [
    {
      match: [{ host: [...new Set(host)].toSorted(), not: [{ path: [ACME_PATH] }] }],
      handle: [
        buildCertifiedRedirect(
          settings,
          "{http.request.host}",
          `https://{http.request.host}${port}{http.request.uri}`,
        ),
      ],
      terminal: true,
    },
  ];
}

/**
 * Builds the route at which Caddy asks if it may issue a certificate on demand: yes for the internal names of Apps with
 * HTTPS. The route matches only requests through loopback, so that requests of clients with this path go to the App.
 */
function buildCertificatePermissionRoute(
  settings: RouteSettings,
  sites: readonly Site[],
): CaddyRoute {
  const name = "{http.request.uri.query.domain}";
  const without = sites.filter((site) => !site.https).flatMap((site) => site.domains);
  const withOptions = sites.filter((site) => site.https && !isTableOnly(site));
  const configured = [
    ...(settings.api === undefined ? [] : [settings.api.domain]),
    ...withOptions.flatMap((site) => [...site.domains, ...site.redirects.map(({ from }) => from)]),
  ].filter(isInternalName);
  const yes = { handle: [{ handler: "static_response", status_code: 200 }], terminal: true };
  const exact = configured.filter((domain) => !isWildcard(domain));
  const subtrees = configured.filter(isWildcard).map((domain) => escapeRegExp(domain.slice(1)));
  return {
    match: [
      {
        path: [CERTIFICATE_PERMISSION_PATH],
        host: ["127.0.0.1"],
        remote_ip: { ranges: ["127.0.0.0/8"] },
      },
    ],
    handle: [
      {
        handler: "subroute",
        routes: [
          ...(without.length === 0
            ? []
            : [
                {
                  match: [{ query: { domain: [...new Set(without)].toSorted() } }],
                  handle: [{ handler: "static_response", status_code: 403 }],
                  terminal: true,
                },
              ]),
          ...(exact.length === 0
            ? []
            : [{ match: [{ query: { domain: [...new Set(exact)].toSorted() } }], ...yes }]),
          ...(subtrees.length === 0
            ? []
            : [
                {
                  match: [
                    {
                      vars_regexp: { [name]: { pattern: `^[a-z0-9-]+(?:${subtrees.join("|")})$` } },
                    },
                  ],
                  ...yes,
                },
              ]),
          {
            match: [
              {
                vars_regexp: { [name]: { pattern: internalPattern } },
                file: { root: getTableFolder(settings.folder), try_files: [`/hosts/${name}/`] },
              },
            ],
            ...yes,
          },
          { handle: [{ handler: "static_response", status_code: 403 }], terminal: true },
        ],
      },
    ],
    terminal: true,
  };
}

function basicAuthHandler(users: NonNullable<Site["users"]>): CaddyHandler {
  return {
    handler: "authentication",
    providers: {
      http_basic: {
        hash: { algorithm: "bcrypt" },
        accounts: users.map(({ name, hash }) => ({ username: name, password: hash })),
        // Caddy caches the results of password checks, because each check takes tens of milliseconds of a core.
        hash_cache: {},
        realm: "restricted",
      },
    },
  };
}

function redirectHandler(status: number, location: string): CaddyHandler {
  return {
    handler: "static_response",
    status_code: status,
    headers: { Location: [location] },
  };
}

function buildOrigin(settings: RouteSettings, scheme: Scheme, domain: string): string {
  const port = scheme === "https" ? settings.httpsPort : settings.httpPort;
  const usual = scheme === "https" ? 443 : 80;
  return `${scheme}://${domain}${port === undefined || port === usual ? "" : `:${port}`}`;
}

function escapeRegExp(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, (character) => `\\${character}`);
}
