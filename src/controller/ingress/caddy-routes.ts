import { join } from "node:path";
import type { Json } from "../../base/canonical-json.ts";
import { isAtLeast } from "./caddy-version.ts";
import { brokenPage, unavailablePage, unknownPage } from "./error-pages.ts";
import { hostPattern } from "./folder-route-table.ts";
import { LONG_LEVELS, longPattern, SLOTS, shortPattern } from "./route-table-entry.ts";
import { internalPattern, isInternalName, isTableOnly, isWildcard, type Site } from "./site.ts";

/** The path of Caddy's permission requests at the first handshake for a name. */
export const CERTIFICATE_PERMISSION_PATH = "/.well-known/berth/certificate";
const ACME_PATH = "/.well-known/acme-challenge/*";

export interface RouteSettings {
  /** The folder of the ingress, which contains the table. */
  readonly folder: string;
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  readonly version: string;
}

type Scheme = "http" | "https";
type CaddyRoute = { readonly [key: string]: Json };
type CaddyHandler = { readonly [key: string]: Json };

export function getTableFolder(folder: string): string {
  return join(folder, "table");
}

/** True for a domain with a certificate of a public authority, whose HTTP requests are redirected to HTTPS. */
export function hasPublicCertificate(site: Site, domain: string): boolean {
  return site.https && !isInternalName(domain) && !isWildcard(domain);
}

/**
 * Builds the routes of one server, in order: certificate permission, normalisation of host names, redirects, Apps
 * with options (the longest path first), all other Apps through the table, Apps of whole subtrees
 * (`*.example.org`), and the error page.
 */
export function buildServerRoutes(
  settings: RouteSettings,
  sites: readonly Site[],
  scheme: Scheme,
): { readonly [key: string]: Json } {
  const withOptions = sites
    .filter((site) => !isTableOnly(site))
    .toSorted((a, b) => b.pathPrefix.length - a.pathPrefix.length);
  return {
    routes: [
      ...(scheme === "http" ? [buildCertificatePermissionRoute(settings, sites)] : []),
      normalizeHostRoute,
      ...buildRedirectRoutes(settings, sites, scheme),
      ...(scheme === "http" ? buildHttpsRedirects(settings, sites) : []),
      ...withOptions.flatMap((site) =>
        buildSiteRoutes(settings, site, (name) => !isWildcard(name)),
      ),
      ...buildTableRoutes(settings, "/hosts/{http.request.host}", [
        { vars_regexp: { "{http.request.host}": { pattern: hostPattern } } },
      ]),
      ...withOptions.flatMap((site) => buildSiteRoutes(settings, site, isWildcard)),
      { handle: [pageHandler(404, unknownPage)], terminal: true },
    ],
    errors: {
      routes: [
        {
          match: [{ vars_regexp: { "{http.error.status_code}": { pattern: "^50[234]$" } } }],
          handle: [pageHandler("{http.error.status_code}", brokenPage)],
          terminal: true,
        },
      ],
    },
  };
}

/**
 * Normalises host names: `Web.Example.ORG.` is web.example.org (RFC 4343). Caddy's own matcher does so, but file
 * names are case-sensitive. Caddy has no function for it.
 */
const normalizeHostRoute: CaddyRoute = {
  match: [{ vars_regexp: { "{http.request.hostport}": { pattern: "[A-Z]|\\.(?::[0-9]+)?$" } } }],
  handle: [
    {
      handler: "headers",
      request: {
        replace: {
          Host: [
            ...Array.from("ABCDEFGHIJKLMNOPQRSTUVWXYZ", (letter) => ({
              search: letter,
              replace: letter.toLowerCase(),
            })),
            { search_regexp: "^(.*[^.])\\.(:[0-9]+)?$", replace: "$1$2" },
          ],
        },
      },
    },
  ],
};

/** Builds the routes of one App, for those of its domains that `of` selects. */
function buildSiteRoutes(
  settings: RouteSettings,
  site: Site,
  isWanted: (domain: string) => boolean,
): CaddyRoute[] {
  const host = site.domains.filter(isWanted);
  if (host.length === 0) return [];
  const path = site.pathPrefix;
  const routes: CaddyRoute[] = [];
  if (site.maintenance === undefined) {
    if (site.users) routes.push({ handle: [basicAuthHandler(site.users)] });
    if (path !== "" && site.stripPrefix)
      routes.push({
        handle: [{ handler: "rewrite", strip_path_prefix: escapePlaceholders(path) }],
      });
    routes.push(
      ...buildTableRoutes(settings, `/apps/${site.app}`, [], site.stripPrefix ? path : ""),
      {
        handle: [pageHandler(503, unavailablePage, RETRY_SOON)],
        terminal: true,
      },
    );
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
      handle: [{ handler: "subroute", routes }],
      terminal: true,
    },
  ];
}

/**
 * Builds routes to the targets of the newest entry below `place`; then an error page if the folder has no entry.
 * Falls through if there is no such folder.
 */
function buildTableRoutes(
  settings: RouteSettings,
  path: string,
  extraMatchers: readonly CaddyRoute[],
  strippedPrefix = "",
): CaddyRoute[] {
  const found = (suffix: string, handle: readonly Json[]): CaddyRoute => ({
    match: [
      {
        ...Object.assign({}, ...extraMatchers),
        file: { root: getTableFolder(settings.folder), try_files: [`${path}${suffix}`] },
      },
    ],
    handle,
  });
  // A second matcher splits the file name, because it sees the first one's result.
  const leadBy = (pattern: string, slots: number): Json => ({
    handler: "subroute",
    routes: [
      {
        match: [{ vars_regexp: { "{http.matchers.file.relative}": { name: "up", pattern } } }],
        handle: [proxyHandler(settings.version, slots, strippedPrefix)],
        terminal: true,
      },
    ],
  });
  return [
    found("/*".repeat(LONG_LEVELS), [leadBy(longPattern, SLOTS * LONG_LEVELS)]),
    found("/*", [leadBy(shortPattern, SLOTS)]),
    { ...found("/", [pageHandler(503, unavailablePage, RETRY_SOON)]), terminal: true },
  ];
}

function proxyHandler(version: string, slots: number, strippedPrefix: string): CaddyHandler {
  return {
    handler: "reverse_proxy",
    upstreams: Array.from({ length: slots }, (_, slot) => ({
      dial: `{http.regexp.up.1}{http.regexp.up.${slot + 3}}{http.regexp.up.2}`,
    })),
    load_balancing: {
      // Round-robin counters would be shared by all Apps, so that two Apps in turn would each reach one replica
      // only.
      selection_policy: { policy: "random" },
      // Retries another replica after a failed connection. Only requests that were not sent, and GETs, are
      // repeated.
      try_duration: "2s",
      try_interval: "50ms",
    },
    // Flushes slow responses early (Caddy itself recognises event streams only). -1 would also keep a request
    // running after its client has left.
    flush_interval: "10ms",
    transport: {
      protocol: "http",
      // Below the 5 s keep-alive of Node's server, so that no request is sent on a connection that it closes.
      keep_alive: { enabled: true, idle_timeout: "4s", max_idle_conns_per_host: 64 },
    },
    headers: {
      request: {
        // Caddy sets X-Forwarded-For, -Host and -Proto. Apps would trust these others, which clients could forge.
        delete: ["Forwarded", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-Ssl"].concat(
          strippedPrefix === "" ? ["X-Forwarded-Prefix"] : [],
        ),
        set: {
          "X-Real-Ip": ["{http.request.remote.host}"],
          ...(strippedPrefix === ""
            ? {}
            : { "X-Forwarded-Prefix": [escapePlaceholders(strippedPrefix)] }),
        },
      },
    },
    // Before 2.7, WebSockets end when a configuration is loaded; later versions can keep them.
    ...(isAtLeast(version, 2, 7) ? { stream_close_delay: "1h" } : {}),
  };
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
      return {
        match: [{ host: [from] }],
        handle: [
          redirectHandler(permanent ? 308 : 307, `${escapePlaceholders(base)}{http.request.uri}`),
        ],
        terminal: true,
      };
    }),
  );
}

/** Redirects HTTP to HTTPS. Caddy answers the HTTP challenges of authorities before any route. */
function buildHttpsRedirects(settings: RouteSettings, sites: readonly Site[]): CaddyRoute[] {
  if (settings.httpsPort === undefined) return [];
  const host = sites.flatMap((site) =>
    site.domains.filter((name) => hasPublicCertificate(site, name)),
  );
  if (host.length === 0) return [];
  const port = settings.httpsPort === 443 ? "" : `:${settings.httpsPort}`;
  return [
    {
      match: [{ host: [...new Set(host)].toSorted(), not: [{ path: [ACME_PATH] }] }],
      handle: [redirectHandler(308, `https://{http.request.host}${port}{http.request.uri}`)],
      terminal: true,
    },
  ];
}

/**
 * Permits certificates for internal names of Apps with HTTPS. Only Caddy itself gets this route: other requests
 * with this path go to the App.
 */
function buildCertificatePermissionRoute(
  settings: RouteSettings,
  sites: readonly Site[],
): CaddyRoute {
  const name = "{http.request.uri.query.domain}";
  const without = sites.filter((site) => !site.https).flatMap((site) => site.domains);
  const configured = sites
    .filter((site) => site.https && !isTableOnly(site))
    .flatMap((site) => [...site.domains, ...site.redirects.map(({ from }) => from)])
    .filter(isInternalName);
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
        // Checking a password takes tens of milliseconds of a core for each request without the cache.
        hash_cache: {},
        realm: "restricted",
      },
    },
  };
}

const RETRY_SOON = "5";
const RETRY_LATER = "120";

function pageHandler(status: number | string, body: string, retryAfter?: string): CaddyHandler {
  return {
    handler: "static_response",
    status_code: status,
    headers: {
      "Content-Type": ["text/html; charset=utf-8"],
      "Cache-Control": ["no-store"],
      ...(retryAfter === undefined ? {} : { "Retry-After": [retryAfter] }),
    },
    body: escapePlaceholders(body),
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

/** Escapes text of users: `{env.HOME}` in a page would otherwise be replaced by the variable. */
function escapePlaceholders(text: string): string {
  return text.replaceAll(/[{}]/g, (brace) => `\\${brace}`);
}

function escapeRegExp(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, (character) => `\\${character}`);
}
