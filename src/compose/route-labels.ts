import type { Entry } from "./compose-tree.ts";

/** The labels of a service that together route requests to one of its ports. */
export interface RouteGroup {
  /** The port in the container; undefined if no label names it. */
  readonly port: number | undefined;
  /** The names that the author of the file chose for the routers and services of the proxy. */
  readonly names: readonly string[];
  readonly labels: readonly Entry[];
}

const traefikPattern = /^traefik\.http\.(routers|services|middlewares)\.([^.]+)\.(.+)$/;

/** The labels of one router, service or middleware of Traefik, by option. */
type TraefikPart = ReadonlyMap<string, Entry>;

/** The parts of Traefik's configuration in the labels of a container, by section and name. */
type TraefikParts = Readonly<
  Record<"routers" | "services" | "middlewares", Map<string, Map<string, Entry>>>
>;

/** Groups the labels of Traefik and caddy-docker-proxy by the port to which they route requests. */
export function groupRouteLabels(labels: readonly Entry[]): RouteGroup[] {
  return [...groupTraefikLabels(labels), ...groupCaddyLabels(labels)];
}

/**
 * Returns the port to which Traefik's labels route the requests of each router. A router is not included if no label
 * names its port.
 */
export function readRouterPorts(labels: readonly Entry[]): ReadonlyMap<string, number> {
  const parts = readTraefikParts(labels);
  return new Map(
    [...parts.routers].flatMap(([name, router]) => {
      const port = readPort(parts.services.get(findServiceName(parts, name, router) ?? ""));
      return port === undefined ? [] : [[name, port] as const];
    }),
  );
}

function groupTraefikLabels(labels: readonly Entry[]): RouteGroup[] {
  const parts = readTraefikParts(labels);
  return [...parts.routers].map(([name, router]) => {
    const serviceName = findServiceName(parts, name, router);
    const service = parts.services.get(serviceName ?? "");
    const middlewares = splitNames(getText(router.get("middlewares"))).flatMap(
      (used) => parts.middlewares.get(used) ?? [],
    );
    return {
      port: readPort(service),
      names: serviceName === undefined ? [name] : [name, serviceName],
      labels: [router, service, ...middlewares].flatMap((part) => [...(part?.values() ?? [])]),
    };
  });
}

function groupCaddyLabels(labels: readonly Entry[]): RouteGroup[] {
  const groups = new Map<string, Entry[]>();
  for (const label of labels) {
    const site = /^caddy(?:_\d+)?(?=\.|$)/.exec(label.key)?.[0];
    if (site !== undefined) groups.set(site, [...(groups.get(site) ?? []), label]);
  }
  return [...groups.values()].map((own) => {
    const [port] = own.flatMap(({ key, value }) => {
      const text = value.kind === "scalar" && key.endsWith(".reverse_proxy") ? value.text : "";
      const found = /\bupstreams\s+(?:http\s+)?(\d{1,5})\b/.exec(text.slice(0, 256))?.[1];
      return found === undefined ? [] : [Number(found)];
    });
    return { port, names: [], labels: own };
  });
}

function readTraefikParts(labels: readonly Entry[]): TraefikParts {
  const parts: TraefikParts = {
    routers: new Map(),
    services: new Map(),
    middlewares: new Map(),
  };
  for (const label of labels) {
    const [, section, name, option] = traefikPattern.exec(label.key) ?? [];
    if (name === undefined || option === undefined) continue;
    if (section !== "routers" && section !== "services" && section !== "middlewares") continue;
    const part = parts[section].get(name) ?? new Map<string, Entry>();
    parts[section].set(name, part.set(option, label));
  }
  return parts;
}

/**
 * Returns the Traefik service that a router sends its requests to: the one that the router names or, if it names none,
 * the only service of the container.
 */
function findServiceName(
  { services }: TraefikParts,
  name: string,
  router: TraefikPart,
): string | undefined {
  const named = getText(router.get("service")).replace(/@docker$/, "");
  if (named !== "") return named;
  if (services.has(name)) return name;
  return services.size === 1 ? services.keys().next().value : undefined;
}

function readPort(service: TraefikPart | undefined): number | undefined {
  const text = getText(service?.get("loadbalancer.server.port"));
  return /^\d{1,5}$/.test(text) ? Number(text) : undefined;
}

function splitNames(text: string): string[] {
  return text.split(",").map((name) => name.trim().replace(/@docker$/, ""));
}

function getText(entry: Entry | undefined): string {
  return entry?.value.kind === "scalar" ? entry.value.text : "";
}
