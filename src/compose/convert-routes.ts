import { findDomainProblem } from "../resources/field-checks.ts";
import { domainPattern, NO_DOMAIN } from "../resources/field-schemas.ts";
import { type ComposeNode, type Entry, isNull, listEntries } from "./compose-tree.ts";
import { convertCaddyLabel } from "./convert-caddy-labels.ts";
import type { ConvertedPorts } from "./convert-ports.ts";
import { convertTraefikLabels } from "./convert-traefik-labels.ts";
import type { HttpHints } from "./http-hints.ts";
import { asMapping } from "./merge-services.ts";
import { readCatalogVariables } from "./read-catalog-variables.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Reads the routes of an app from `labels`, `deploy.labels` and the variables of nginx-proxy and of a catalog. */
export function readRoutes(
  conversion: ServiceConversion,
  deployLabels: ComposeNode | undefined,
): HttpHints {
  const hints: HttpHints = { domains: [], prefixes: new Map() };
  const traefik: Entry[] = [];
  for (const labels of [conversion.getNode("labels"), deployLabels]) {
    if (!labels || isNull(labels)) continue;
    // `listEntries` makes copies of the items of a list, and the items themselves must be marked as handled.
    for (const item of labels.kind === "list" ? labels.items : []) {
      if (item.kind === "scalar") conversion.markHandled(item);
    }
    for (const entry of listEntries(asMapping(labels))) {
      conversion.markHandled(entry.value);
      if (entry.key.startsWith("traefik.")) traefik.push(entry);
      else if (/^caddy(_\d+)?(\.|$)/.test(entry.key)) convertCaddyLabel(conversion, entry, hints);
      else {
        conversion.addLoss(
          entry.value,
          `the label ${entry.key} is omitted: containers have only the labels of Berth`,
          "use metadata.labels or metadata.annotations for labels of your own",
        );
      }
    }
  }
  convertTraefikLabels(conversion, traefik, hints);
  readNginxProxy(conversion, hints);
  readCatalogVariables(conversion, hints);
  return hints;
}

/**
 * Sets the spec's `domain` and `ingress`, which need its `port`. A service has a domain only if its labels route
 * requests to it, if its HTTP port is published on all addresses, or if the user makes it public.
 */
export function writeRoutes(
  conversion: ServiceConversion,
  hints: HttpHints,
  { web, published }: ConvertedPorts,
): void {
  const { spec } = conversion;
  const known = new Set<string>();
  for (const { domain, node } of hints.domains) {
    const problem = findRouteDomainProblem(domain);
    if (problem !== undefined) {
      conversion.addLoss(node, `"${domain}" ${problem}, so the app does not get this domain`);
    } else known.add(domain);
  }
  const domains = [...known];
  const [prefix, ...otherPrefixes] = [...hints.prefixes];
  const first = hints.domains[0]?.node ?? prefix?.[1] ?? hints.route?.node;
  if (spec.port === undefined) {
    if (first) {
      conversion.addLoss(
        first,
        "the app has routes, but its HTTP port is unknown",
        domains.length > 0
          ? `add port: PORT and domain: ${domains[0]} to the spec`
          : "add port: PORT to the spec",
      );
    }
    return;
  }
  if (!isPublic(conversion, hints, published)) {
    spec.domain = NO_DOMAIN;
    return;
  }
  // A wildcard domain is only added to the additional domains, because it cannot be the app's address.
  const own = domains.find((domain) => !domain.startsWith("*."));
  if (own !== undefined) spec.domain = own;
  const further = domains.filter((domain) => domain !== own);
  const ingress: NonNullable<typeof spec.ingress> = {};
  if (further.length > 0) ingress.domains = further;
  if (prefix) {
    for (const [path, node] of otherPrefixes) {
      conversion.addLoss(
        node,
        `an app has only one path prefix, and already has ${prefix[0]}: ${path} is omitted`,
      );
    }
    const path = prefix[0].replace(/\/+$/, "");
    if (path !== "" && !/^\/[^\s?#*%\\]+$/.test(path)) {
      conversion.addLoss(prefix[1], `"${prefix[0]}" is not a valid path prefix for an app`);
    } else if (path !== "") {
      ingress.pathPrefix = path;
      if (hints.stripPrefix === true) ingress.stripPrefix = true;
    }
  }
  if (Object.keys(ingress).length > 0) spec.ingress = ingress;
  conversion.addPublic({
    url: getUrl(own ?? `${conversion.app}.<base domain>`, ingress.pathPrefix ?? ""),
    port: null,
    why: describeReason(hints, first, published),
    web,
    place: (first ?? published)?.place ?? conversion.place,
  });
}

function describeReason(
  { route }: HttpHints,
  first: ComposeNode | undefined,
  published: ComposeNode | undefined,
): string {
  if (first !== undefined && first === route?.node)
    return `the variable ${route.variable} routes it`;
  if (first) return `${first.path.replace(/^services\.[^.[]+\.?/, "")} routes it`;
  return published ? "its port is published on every address of the machine" : "--public names it";
}

function isPublic(
  { options, service }: ServiceConversion,
  hints: HttpHints,
  published: ComposeNode | undefined,
): boolean {
  if (published || options.publicPorts.has(service)) return true;
  const isRouted = hints.domains.length > 0 || hints.prefixes.size > 0 || hints.route !== undefined;
  return hints.isDisabled !== true && isRouted;
}

/**
 * Returns the URL of a domain. For a name that cannot have a public certificate the URL begins with http, because the
 * ingress also serves such a name over HTTP.
 */
function getUrl(domain: string, prefix: string): string {
  const isLocal = domain.endsWith(">") || /(^|\.)(localhost|local|internal|test)$/.test(domain);
  return `${isLocal ? "http" : "https"}://${domain}${prefix}`;
}

function findRouteDomainProblem(domain: string): string | undefined {
  if (!new RegExp(domainPattern).test(domain)) return "is not a host name in lower case";
  return findDomainProblem(domain);
}

/** Reads the variables of nginx-proxy. They are kept in `env`, where they have no effect. */
function readNginxProxy(conversion: ServiceConversion, hints: HttpHints): void {
  const host = conversion.env.get("VIRTUAL_HOST");
  if (!host) return;
  for (const domain of host.value.split(",").map((part) => part.trim())) {
    if (domain !== "") hints.domains.push({ domain, node: host.node });
  }
  conversion.addNote(
    host.node,
    "VIRTUAL_HOST has become the domain of the app; the variable itself has no effect",
  );
  const port = conversion.env.get("VIRTUAL_PORT");
  if (port && /^\d{1,5}$/.test(port.value))
    hints.port ??= { port: Number(port.value), evidence: "the variable VIRTUAL_PORT" };
  const path = conversion.env.get("VIRTUAL_PATH");
  if (path && path.value !== "/") hints.prefixes.set(path.value, path.node);
}
