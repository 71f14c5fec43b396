import { join } from "node:path";
import type { Json } from "../../base/canonical.ts";
import { isAtLeast } from "./caddy-version.ts";
import { hostPattern } from "./folder-table.ts";
import { brokenPage, unavailablePage, unknownPage } from "./pages.ts";
import { internalPattern, isInternalName, isPlain, isWildcard, type Site } from "./site.ts";
import { LONG_LEVELS, longPattern, SLOTS, shortPattern } from "./table-entry.ts";

/** Where Caddy asks, at the first handshake for a name, whether the name is one of ours. */
export const ASK_PATH = "/.well-known/berth/certificate";
const ACME_PATH = "/.well-known/acme-challenge/*";

export interface RouteSettings {
  /** Of the ingress: the table is in it. */
  readonly folder: string;
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  readonly version: string;
}

type Scheme = "http" | "https";
type Route = { readonly [key: string]: Json };
type Handler = { readonly [key: string]: Json };

export function tableFolder(folder: string): string {
  return join(folder, "table");
}

/** Gets a certificate of a public authority, and its HTTP requests are sent to HTTPS. */
export function isPublic(site: Site, domain: string): boolean {
  return site.https && !isInternalName(domain) && !isWildcard(domain);
}

/**
 * Routes of one server, in the order in which they are tried: the question of the certificates, how
 * host names are written, what is sent elsewhere, Apps with options (the longest path first), all others by the table, Apps of whole
 * subtrees (`*.example.org`), and nothing.
 */
export function serverRoutes(
  settings: RouteSettings,
  sites: readonly Site[],
  scheme: Scheme,
): { readonly [key: string]: Json } {
  const withOptions = sites
    .filter((site) => !isPlain(site))
    .toSorted((a, b) => b.pathPrefix.length - a.pathPrefix.length);
  return {
    routes: [
      ...(scheme === "http" ? [askRoute(settings, sites)] : []),
      plainHost,
      ...redirectRoutes(settings, sites, scheme),
      ...(scheme === "http" ? toHttps(settings, sites) : []),
      ...withOptions.flatMap((site) => siteRoute(settings, site, (name) => !isWildcard(name))),
      ...tableRoutes(settings, "/hosts/{http.request.host}", [
        { vars_regexp: { "{http.request.host}": { pattern: hostPattern } } },
      ]),
      ...withOptions.flatMap((site) => siteRoute(settings, site, isWildcard)),
      { handle: [page(404, unknownPage)], terminal: true },
    ],
    errors: {
      routes: [
        {
          match: [{ vars_regexp: { "{http.error.status_code}": { pattern: "^50[234]$" } } }],
          handle: [page("{http.error.status_code}", brokenPage)],
          terminal: true,
        },
      ],
    },
  };
}

/**
 * `Web.Example.ORG.` is web.example.org (RFC 4343): whatever comes after this, the App too, sees it
 * so. Caddy's own matcher knows that; names of files are told apart by case. It has no function for it.
 */
const plainHost: Route = {
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

/** One App's own route, for those of its domains that `of` takes. */
function siteRoute(settings: RouteSettings, site: Site, of: (domain: string) => boolean): Route[] {
  const host = site.domains.filter(of);
  if (host.length === 0) return [];
  const path = site.pathPrefix;
  const routes: Route[] = [];
  if (site.maintenance === undefined) {
    if (site.users) routes.push({ handle: [basicAuth(site.users)] });
    if (path !== "" && site.stripPrefix)
      routes.push({ handle: [{ handler: "rewrite", strip_path_prefix: literal(path) }] });
    routes.push(...tableRoutes(settings, `/apps/${site.app}`, [], site.stripPrefix ? path : ""), {
      handle: [page(503, unavailablePage, RETRY_SOON)],
      terminal: true,
    });
  } else {
    routes.push({ handle: [page(503, site.maintenance, RETRY_LATER)], terminal: true });
  }
  return [
    {
      match: [
        {
          host,
          ...(path === "" ? {} : { path_regexp: { pattern: `^${quoted(path)}(?:/|$)` } }),
        },
      ],
      handle: [{ handler: "subroute", routes }],
      terminal: true,
    },
  ];
}

/**
 * Where the newest entry below `place` leads to; then, where the folder is there without an entry, that
 * the App is not available. Falls through where there is no such folder.
 */
function tableRoutes(
  settings: RouteSettings,
  place: string,
  also: readonly Route[],
  strippedPrefix = "",
): Route[] {
  const found = (suffix: string, handle: readonly Json[]): Route => ({
    match: [
      {
        ...Object.assign({}, ...also),
        file: { root: tableFolder(settings.folder), try_files: [`${place}${suffix}`] },
      },
    ],
    handle,
  });
  // What the name of the file says is taken apart by a second matcher, which sees the first one's result.
  const leadBy = (pattern: string, slots: number): Json => ({
    handler: "subroute",
    routes: [
      {
        match: [{ vars_regexp: { "{http.matchers.file.relative}": { name: "up", pattern } } }],
        handle: [proxy(settings.version, slots, strippedPrefix)],
        terminal: true,
      },
    ],
  });
  return [
    found("/*".repeat(LONG_LEVELS), [leadBy(longPattern, SLOTS * LONG_LEVELS)]),
    found("/*", [leadBy(shortPattern, SLOTS)]),
    { ...found("/", [page(503, unavailablePage, RETRY_SOON)]), terminal: true },
  ];
}

function proxy(version: string, slots: number, strippedPrefix: string): Handler {
  return {
    handler: "reverse_proxy",
    upstreams: Array.from({ length: slots }, (_, slot) => ({
      dial: `{http.regexp.up.1}{http.regexp.up.${slot + 3}}{http.regexp.up.2}`,
    })),
    load_balancing: {
      // Counters would be those of all Apps together, and two Apps in turn would each meet one replica.
      selection_policy: { policy: "random" },
      // A replica that has just gone: another one is tried. Only what never arrived is sent again, and GETs.
      try_duration: "2s",
      try_interval: "50ms",
    },
    // Answers that trickle (not only event streams, which Caddy knows) reach people as they come. Not
    // -1: that also means that a request goes on when its client has left.
    flush_interval: "10ms",
    transport: {
      protocol: "http",
      // Below the 5 s after which Node's server hangs up, so that no request meets a closed connection.
      keep_alive: { enabled: true, idle_timeout: "4s", max_idle_conns_per_host: 64 },
    },
    headers: {
      request: {
        // X-Forwarded-For, -Host and -Proto are Caddy's. These are what apps believe beside them.
        delete: ["Forwarded", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-Ssl"].concat(
          strippedPrefix === "" ? ["X-Forwarded-Prefix"] : [],
        ),
        set: {
          "X-Real-Ip": ["{http.request.remote.host}"],
          ...(strippedPrefix === "" ? {} : { "X-Forwarded-Prefix": [literal(strippedPrefix)] }),
        },
      },
    },
    // Before 2.7, WebSockets end when a configuration is loaded; since then they may stay.
    ...(isAtLeast(version, 2, 7) ? { stream_close_delay: "1h" } : {}),
  };
}

function redirectRoutes(settings: RouteSettings, sites: readonly Site[], scheme: Scheme): Route[] {
  return sites.flatMap((site) =>
    site.redirects.map(({ from, to, permanent }): Route => {
      const own = site.domains[0] ?? "";
      const secure = settings.httpsPort !== undefined && isPublic(site, own);
      const base = to ?? origin(settings, secure ? "https" : scheme, own);
      return {
        match: [{ host: [from] }],
        handle: [redirect(permanent ? 308 : 307, `${literal(base)}{http.request.uri}`)],
        terminal: true,
      };
    }),
  );
}

/** Authorities ask over HTTP whether a name is ours, and are answered by Caddy before any route. */
function toHttps(settings: RouteSettings, sites: readonly Site[]): Route[] {
  if (settings.httpsPort === undefined) return [];
  const host = sites.flatMap((site) => site.domains.filter((name) => isPublic(site, name)));
  if (host.length === 0) return [];
  const port = settings.httpsPort === 443 ? "" : `:${settings.httpsPort}`;
  return [
    {
      match: [{ host: [...new Set(host)].toSorted(), not: [{ path: [ACME_PATH] }] }],
      handle: [redirect(308, `https://{http.request.host}${port}{http.request.uri}`)],
      terminal: true,
    },
  ];
}

/**
 * Yes for names of local networks that lead to an App with HTTPS. Asked by Caddy itself only: what
 * reaches the port from elsewhere under this path is an App's.
 */
function askRoute(settings: RouteSettings, sites: readonly Site[]): Route {
  const name = "{http.request.uri.query.domain}";
  const without = sites.filter((site) => !site.https).flatMap((site) => site.domains);
  const configured = sites
    .filter((site) => site.https && !isPlain(site))
    .flatMap((site) => [...site.domains, ...site.redirects.map(({ from }) => from)])
    .filter(isInternalName);
  const yes = { handle: [{ handler: "static_response", status_code: 200 }], terminal: true };
  const exact = configured.filter((domain) => !isWildcard(domain));
  const subtrees = configured.filter(isWildcard).map((domain) => quoted(domain.slice(1)));
  return {
    match: [{ path: [ASK_PATH], host: ["127.0.0.1"], remote_ip: { ranges: ["127.0.0.0/8"] } }],
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
                file: { root: tableFolder(settings.folder), try_files: [`/hosts/${name}/`] },
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

function basicAuth(users: NonNullable<Site["users"]>): Handler {
  return {
    handler: "authentication",
    providers: {
      http_basic: {
        hash: { algorithm: "bcrypt" },
        accounts: users.map(({ name, hash }) => ({ username: name, password: hash })),
        // Checking a password takes tens of milliseconds of a core, at every request without it.
        hash_cache: {},
        realm: "restricted",
      },
    },
  };
}

const RETRY_SOON = "5";
const RETRY_LATER = "120";

function page(status: number | string, body: string, retryAfter?: string): Handler {
  return {
    handler: "static_response",
    status_code: status,
    headers: {
      "Content-Type": ["text/html; charset=utf-8"],
      "Cache-Control": ["no-store"],
      ...(retryAfter === undefined ? {} : { "Retry-After": [retryAfter] }),
    },
    body: literal(body),
  };
}

function redirect(status: number, location: string): Handler {
  return {
    handler: "static_response",
    status_code: status,
    headers: { Location: [location] },
  };
}

function origin(settings: RouteSettings, scheme: Scheme, domain: string): string {
  const port = scheme === "https" ? settings.httpsPort : settings.httpPort;
  const usual = scheme === "https" ? 443 : 80;
  return `${scheme}://${domain}${port === undefined || port === usual ? "" : `:${port}`}`;
}

/** Text of a person: without this, `{env.HOME}` in a page would be the variable of that name. */
function literal(text: string): string {
  return text.replaceAll(/[{}]/g, (brace) => `\\${brace}`);
}

function quoted(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, (character) => `\\${character}`);
}
