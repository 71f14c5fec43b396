import { join } from "node:path";
import type { Json } from "../../base/canonical-json.ts";
import { forwardedHeadersHandler, proxyHandler } from "./caddy-handlers.ts";
import { type DirectRouteSet, getDirectFolder, SLOT_FOLDERS } from "./direct-routes.ts";
import { getTableFolder, TRY_DURATION } from "./table-routes.ts";

type CaddyRoute = { readonly [key: string]: Json };

/**
 * Builds the direct routes, whose targets are part of Caddy's configuration. Caddy sends the requests of a host to a
 * slot (one list of targets) only while the marker file of the slot and the host exists. Otherwise Caddy looks up the
 * targets in the route table. Hosts in `without` get no direct route.
 */
export function buildDirectRoutes(
  settings: { readonly folder: string; readonly version: string },
  { generation, routes }: DirectRouteSet,
  without: ReadonlySet<string>,
): CaddyRoute[] {
  const root = join(getDirectFolder(getTableFolder(settings.folder)), generation);
  return SLOT_FOLDERS.flatMap((folder, slot) => {
    const inner = routes.flatMap(({ hosts, slots }): HostRoute[] => {
      const targets = slots[slot];
      // Caddy refuses a matcher that contains the same name twice, so each name is kept only once.
      const host = [...new Set(hosts)].filter((name) => !without.has(name));
      if (!targets || host.length === 0) return [];
      const proxy = proxyHandler(settings.version, targets, TRY_DURATION);
      return [{ match: [{ host }], handle: [forwardedHeadersHandler(""), proxy], terminal: true }];
    });
    if (inner.length === 0) return [];
    return [
      {
        // Caddy applies only the first matching route of the group `direct`, so it looks up no second marker file after
        // it has found one.
        group: "direct",
        match: [{ file: { root, try_files: [`/${folder}/{http.request.host}`] } }],
        handle: [{ handler: "subroute", routes: groupByHost(inner) }],
      },
    ];
  });
}

interface HostRoute extends CaddyRoute {
  readonly match: readonly [{ readonly host: readonly string[] }];
}

/**
 * Groups routes by host. Caddy tries routes one after the other. With groups, it tries the groups first, and then
 * only the routes of the matching group.
 */
function groupByHost(routes: readonly HostRoute[]): CaddyRoute[] {
  const size = Math.ceil(Math.sqrt(routes.length));
  if (size <= GROUP_SIZE_MIN) return [...routes];
  return Array.from({ length: Math.ceil(routes.length / size) }, (_, index) => {
    const some = routes.slice(index * size, (index + 1) * size);
    const host = some.flatMap(({ match }) => match[0].host);
    return { match: [{ host }], handle: [{ handler: "subroute", routes: some }], terminal: true };
  });
}

const GROUP_SIZE_MIN = 4;
