import { isIP } from "node:net";
import { join } from "node:path";
import { hashJson } from "../../base/canonical-json.ts";
import { findPairedAddress } from "../reserved-addresses.ts";
import { isTableOnly, type Site } from "./site.ts";

/**
 * A route of an App whose targets are part of Caddy's configuration, in one or two lists that are called slots. While a
 * slot equals the App's current targets, Caddy need not look them up in the route table.
 */
export interface DirectRoute {
  readonly app: string;
  readonly hosts: readonly string[];
  /**
   * One or two lists of targets: the targets when the configuration was loaded, and those that the next version will
   * have.
   */
  readonly slots: readonly (readonly string[])[];
}

/** The direct routes of one configuration. */
export interface DirectRouteSet {
  /** A hash of the routes. It names the folder that contains the marker files of these routes. */
  readonly generation: string;
  readonly routes: readonly DirectRoute[];
}

/**
 * The names of the folders in `direct/<generation>/` with the marker files (see DirectMarkers): one folder for each
 * slot of a direct route.
 */
export const SLOT_FOLDERS = ["a", "b"] as const;

export const noDirectRoutes = createDirectRouteSet([]);

export function createDirectRouteSet(routes: readonly DirectRoute[]): DirectRouteSet {
  return { generation: hashJson(routes).slice(0, 16), routes };
}

/** Returns the direct routes of all Apps that have no ingress options and at least one target. */
export async function proposeDirectRoutes(
  sites: readonly Site[],
  findSlots: (app: string) => Promise<readonly (readonly string[])[]>,
): Promise<DirectRouteSet> {
  const routes: DirectRoute[] = [];
  // A host gets no direct route if another App serves some of its paths.
  const shared = new Set(
    sites.filter((site) => !isTableOnly(site)).flatMap(({ domains }) => domains),
  );
  for (const site of sites.filter(isTableOnly).toSorted((a, b) => (a.app < b.app ? -1 : 1))) {
    // An IP address gets no direct route: a direct route of 127.0.0.1 would also match the requests with which Caddy
    // asks for permission to issue certificates.
    const hosts = site.domains
      .filter((domain) => isIP(domain) === 0 && !shared.has(domain))
      .toSorted();
    const slots = hosts.length === 0 ? [] : await findSlots(site.app);
    if (slots.length > 0) routes.push({ app: site.app, hosts, slots });
  }
  return createDirectRouteSet(routes);
}

/**
 * Returns the expected targets of the App's next version, which uses the other address of each replica's reserved pair
 * with the same port. Undefined if the engine has chosen the address of a target.
 */
export function pairTargets(reserved: string, targets: readonly string[]): string[] | undefined {
  const paired = targets.flatMap((target) => {
    const [address = "", port = ""] = target.split(":");
    const other = findPairedAddress(reserved, address);
    return other === undefined ? [] : [`${other}:${port}`];
  });
  return paired.length === targets.length ? paired : undefined;
}

export function getDirectFolder(tableFolder: string): string {
  return join(tableFolder, "direct");
}
