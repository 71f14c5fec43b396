import { join } from "node:path";
import type { Json } from "../../base/canonical-json.ts";
import {
  forwardedHeadersHandler,
  pageHandler,
  proxyHandler,
  RETRY_SOON,
} from "./caddy-handlers.ts";
import { unavailablePage } from "./error-pages.ts";
import { TARGET_LINK } from "./folder-route-table.ts";
import { LONG_LEVELS, longPattern, SLOTS, shortPattern } from "./route-table-entry.ts";

type CaddyRoute = { readonly [key: string]: Json };

/** Matches the error statuses that Caddy itself sets when it cannot proxy a request. */
export const PROXY_FAILED = "^50[234]$";
/** The time for which Caddy tries to connect a request to one of its targets. */
export const TRY_DURATION = "2s";
/**
 * The time for which Caddy tries to connect to one of the targets in its second attempt, after the first attempt has
 * taken TRY_DURATION.
 */
const RETRY_DURATION = "250ms";

/**
 * The folder of the route table in which Caddy looks up the targets of a request: the folder of one App, or the folder
 * of the requested host.
 */
export interface TablePath {
  /** The folder of the ingress, which contains the route table. */
  readonly folder: string;
  /** The path of the folder in the route table. It may contain placeholders of Caddy, such as `{http.request.host}`. */
  readonly path: string;
  /** The version of Caddy, such as 2.6.2. */
  readonly version: string;
  /** The path prefix that Caddy removes from a request before it forwards the request to the App. */
  readonly strippedPrefix?: string;
}

export function getTableFolder(folder: string): string {
  return join(folder, "table");
}

/**
 * Builds routes to the targets that a folder of the route table contains, followed by an error page for a folder
 * without an entry. If there is no such folder, or if `matcher` does not match, the next route handles the request.
 */
export function buildTableRoutes(table: TablePath, matcher: CaddyRoute): CaddyRoute[] {
  const root = getTableFolder(table.folder);
  return [
    ...buildLookups(table, matcher, TRY_DURATION),
    {
      match: [{ ...matcher, file: { root, try_files: [`${table.path}/`] } }],
      handle: [pageHandler(503, unavailablePage, RETRY_SOON)],
      terminal: true,
    },
  ];
}

/**
 * Builds an error route that looks up the targets of a request a second time. If no target accepted a connection, the
 * table may have other targets by now, because Berth has switched back from a version whose containers ended. A request
 * with a body cannot be repeated. `failed` handles the error of the second attempt.
 */
export function buildRetryRoute(
  table: TablePath,
  matcher: CaddyRoute,
  failed: readonly CaddyRoute[],
): CaddyRoute {
  return {
    match: [
      {
        method: ["GET", "HEAD"],
        vars_regexp: { "{http.error.message}": { pattern: "^dial " } },
      },
    ],
    handle: [
      {
        handler: "subroute",
        routes: [...buildLookups(table, matcher, RETRY_DURATION), rethrowRoute],
        errors: { routes: failed },
      },
    ],
    terminal: true,
  };
}

/** Raises the error again, so that the error routes outside of this route handle it. */
export const rethrowRoute: CaddyRoute = {
  handle: [{ handler: "error", status_code: "{http.error.status_code}" }],
};

function buildLookups(table: TablePath, matcher: CaddyRoute, tryDuration: string): CaddyRoute[] {
  const { path, version } = table;
  const root = getTableFolder(table.folder);
  const headers = forwardedHeadersHandler(table.strippedPrefix ?? "");
  const found = (file: CaddyRoute, handle: readonly Json[]): CaddyRoute => ({
    match: [{ ...matcher, file }],
    handle,
  });
  // The regular expression is in a nested route, because it splits the file name that the file matcher of the outer
  // route has found.
  const several = (pattern: string, slots: number): Json => {
    const dials = Array.from(
      { length: slots },
      (_, slot) => `{http.regexp.up.1}{http.regexp.up.${slot + 3}}{http.regexp.up.2}`,
    );
    return {
      handler: "subroute",
      routes: [
        {
          match: [{ vars_regexp: { "{http.matchers.file.relative}": { name: "up", pattern } } }],
          handle: [headers, proxyHandler(version, dials, tryDuration)],
          terminal: true,
        },
      ],
    };
  };
  const single = proxyHandler(version, ["tcp{http.matchers.file.relative}"], tryDuration);
  const long = "/*".repeat(LONG_LEVELS);
  return [
    {
      // The name of the file in the linked folder is the target. If the link is replaced while Caddy looks for the
      // file, Caddy finds no file, so the search is repeated.
      ...found({ root: `${root}${path}/${TARGET_LINK}`, try_files: ["/*", "/*", "/*"] }, [
        headers,
        single,
      ]),
      terminal: true,
    },
    found({ root, try_files: [`${path}/*`] }, [several(shortPattern, SLOTS)]),
    found({ root, try_files: [`${path}${long}`] }, [several(longPattern, SLOTS * LONG_LEVELS)]),
  ];
}
