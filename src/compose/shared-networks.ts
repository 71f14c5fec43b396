import {
  type ComposeNode,
  type Entry,
  emptyMapping,
  getValue,
  listEntries,
  listItems,
  type Mapping,
} from "./compose-tree.ts";
import { getImageWebPort } from "./image-ports.ts";
import type { FindingList } from "./import-findings.ts";
import { asMapping } from "./merge-services.ts";
import { findHealthCheckPort, listVariables } from "./own-ports.ts";
import { parseShortPort } from "./published-port.ts";
import { groupRouteLabels, type RouteGroup } from "./route-labels.ts";
import { isNetworkImage } from "./web-ports.ts";

/** A container whose network other containers share, and these containers. */
interface SharedNetwork {
  readonly owner: string;
  readonly members: readonly string[];
  /** True if the owner serves no requests itself, and only gives its network to the members, as a VPN does. */
  readonly isForwarding: boolean;
  /** The services of the network that are known to serve a port, by port. */
  readonly servers: ReadonlyMap<number, readonly string[]>;
}

/**
 * Under Compose, containers with `network_mode: service:x` use the network of x, so the labels and the published ports
 * of x may belong to any of these containers. Under Berth each app has an address of its own. Returns the services
 * after moving each route and each published port to the service that serves it, and reports the routes whose service
 * is unknown.
 */
export function separateSharedNetworks(
  services: ReadonlyMap<string, Mapping>,
  findings: FindingList,
): ReadonlyMap<string, Mapping> {
  const result = new Map(services);
  for (const network of listSharedNetworks(services)) {
    separateRoutes(result, network, findings);
    separatePorts(result, network, findings);
  }
  return result;
}

function listSharedNetworks(services: ReadonlyMap<string, Mapping>): SharedNetwork[] {
  const containers = new Map(
    [...services].flatMap(([service, body]) => {
      const name = readText(getValue(body, "container_name"));
      return name === undefined ? [] : [[name, service] as const];
    }),
  );
  const networks = new Map<string, string[]>();
  for (const [service, body] of services) {
    const mode = readText(getValue(body, "network_mode")) ?? "";
    const [, kind, name = ""] = /^(service|container):(.+)$/.exec(mode) ?? [];
    const owner = kind === "container" ? containers.get(name) : name;
    if (owner === undefined || owner === service || !services.has(owner)) continue;
    networks.set(owner, [...(networks.get(owner) ?? []), service]);
  }
  return [...networks].map(([owner, members]) => {
    const servers = new Map<number, string[]>();
    for (const service of [owner, ...members]) {
      for (const port of listServedPorts(services.get(service))) {
        servers.set(port, [...(servers.get(port) ?? []), service]);
      }
    }
    const isForwarding = isNetworkImage(getImage(services.get(owner)));
    return { owner, members, isForwarding, servers };
  });
}

function separateRoutes(
  services: Map<string, Mapping>,
  network: SharedNetwork,
  findings: FindingList,
): void {
  const { owner, members, isForwarding } = network;
  const labels = listLabels(services.get(owner));
  const groups = groupRouteLabels(labels);
  const moved = new Map<string, Entry[]>();
  const gone = new Set<string>();
  const kept = new Set<string>();
  for (const group of groups) {
    const server = findServer(network, group);
    const [first] = group.labels;
    if (server === owner || !first) {
      for (const { key } of group.labels) kept.add(key);
    } else if (server !== undefined) {
      for (const { key } of group.labels) gone.add(key);
      moved.set(server, moved.get(server) ?? []);
      moved.get(server)?.push(...group.labels);
      findings.addWithoutHandling(
        "changed",
        server,
        first.value,
        `the labels of ${owner} route requests to ${server}, which shares the network of ${owner}: the app of ${server} gets this route`,
      );
    } else if (isForwarding) {
      for (const { key } of group.labels) gone.add(key);
      findings.add(
        "lost",
        owner,
        first.value,
        `the route${describePort(group)} is omitted: one of the services that share the network of ${owner} serves it, and the file does not name it: ${members.join(", ")}`,
        `--public ${members[0]}:PORT gives a service a domain; set domain in its spec`,
      );
    } else {
      for (const { key } of group.labels) kept.add(key);
      findings.addWithoutHandling(
        "changed",
        owner,
        first.value,
        `the route${describePort(group)} now leads to ${owner}, and not to a service that shared its network: ${members.join(", ")}`,
      );
    }
  }
  for (const [server, added] of moved) addLabels(services, server, added);
  if (gone.size === 0) return;
  // The labels of middlewares stay with the owner of the network, because its remaining routers may
  // use them too.
  replaceKey(services, owner, "labels", (node) => {
    const entries = [...asMapping(node).entries].filter(([key]) => kept.has(key) || !gone.has(key));
    return { ...asMapping(node), entries: new Map(entries) };
  });
}

function separatePorts(
  services: Map<string, Mapping>,
  network: SharedNetwork,
  findings: FindingList,
): void {
  const { owner, members, isForwarding } = network;
  const node = getValue(services.get(owner), "ports");
  if (node?.kind !== "list") return;
  const moved = new Map<string, ComposeNode[]>();
  const left = listItems(node).filter((item) => {
    const [port, ...more] = readContainerPorts(item);
    if (port === undefined || more.length > 0) return true;
    const server = findServer(network, { port, names: [], labels: [] });
    if (server !== undefined && server !== owner) {
      moved.set(server, [...(moved.get(server) ?? []), item]);
      return false;
    }
    if (server === undefined && isForwarding) {
      findings.addWithoutHandling(
        "lost",
        owner,
        item,
        `port ${port} leads to ${owner}, and not to a service that shared its network: ${members.join(", ")}`,
        "to publish this port from another app, move it to ports of the app that serves it",
      );
    }
    return true;
  });
  for (const [server, items] of moved) {
    replaceKey(services, server, "ports", (own) => ({
      ...node,
      items: [...listItems(own.kind === "list" ? own : undefined), ...items],
    }));
  }
  if (moved.size > 0) replaceKey(services, owner, "ports", () => ({ ...node, items: left }));
}

/** Returns the service of a shared network that serves a port, by evidence; undefined without evidence. */
function findServer(
  { owner, members, isForwarding, servers }: SharedNetwork,
  { port, names }: RouteGroup,
): string | undefined {
  const serving = (port === undefined ? undefined : servers.get(port)) ?? [];
  if (serving.includes(owner) || serving.length === 1) return serving[0];
  const named = members.filter((member) =>
    names.some((name) => name === member || name.startsWith(`${member}-`)),
  );
  if (named.length === 1) return named[0];
  return isForwarding && names.length > 0 && members.length === 1 ? members[0] : undefined;
}

/** Lists the ports that the image, variables such as `WEBUI_PORT` and the health check of a service name. */
function listServedPorts(service: Mapping | undefined): ReadonlySet<number> {
  if (!service) return new Set();
  const variables = listVariables(service).flatMap(({ key, value }) => {
    const text = readText(value) ?? "";
    return /(^|_)PORT$/.test(key) && /^\d{1,5}$/.test(text) ? [Number(text)] : [];
  });
  const known = [getImageWebPort(getImage(service)), findHealthCheckPort(service)];
  return new Set([...variables, ...known].filter((port) => port !== undefined));
}

function listLabels(service: ComposeNode | undefined): readonly Entry[] {
  const labels = getValue(service, "labels");
  return labels === undefined ? [] : listEntries(asMapping(labels));
}

/** Adds labels to a service. If the service has a label of the same name, its own label is kept. */
function addLabels(services: Map<string, Mapping>, name: string, added: readonly Entry[]): void {
  replaceKey(services, name, "labels", (node) => {
    const own = asMapping(node);
    const entries = new Map([...added.map((entry) => [entry.key, entry] as const), ...own.entries]);
    return { ...own, entries };
  });
}

function replaceKey(
  services: Map<string, Mapping>,
  name: string,
  key: string,
  change: (node: ComposeNode) => ComposeNode,
): void {
  const service = services.get(name);
  if (!service) return;
  const value = change(getValue(service, key) ?? emptyMapping(service.place, service.path));
  const entry = { place: service.place, ...service.entries.get(key), key, value };
  services.set(name, { ...service, entries: new Map(service.entries).set(key, entry) });
}

function readContainerPorts(item: ComposeNode): number[] {
  if (item.kind === "map") {
    const target = readText(getValue(item, "target")) ?? "";
    return /^\d{1,5}$/.test(target) ? [Number(target)] : [];
  }
  const read = item.kind === "scalar" ? parseShortPort(item.text) : "";
  return typeof read === "string" ? [] : read.map(({ container }) => container);
}

function describePort({ port }: RouteGroup): string {
  return port === undefined ? "" : ` to port ${port}`;
}

function getImage(service: ComposeNode | undefined): string | undefined {
  return readText(getValue(service, "image"));
}

function readText(node: ComposeNode | undefined): string | undefined {
  return node?.kind === "scalar" && node.value !== null ? node.text : undefined;
}
