import type { Entry } from "./compose-tree.ts";
import type { HttpHints } from "./http-hints.ts";
import type { ServiceConversion } from "./service-conversion.ts";
import { parseTraefikRule } from "./traefik-rule.ts";

/**
 * Router options that are ignored, because Berth's ingress applies them to every app or because they have no meaning
 * without Traefik.
 */
const ignoredRouterOptions = /^(entrypoints|tls|tls\.certresolver|tls\.domains.*|service)$/i;

/** Converts the hosts, the path prefix and the port in Traefik's labels, and reports all other labels. */
export function convertTraefikLabels(
  conversion: ServiceConversion,
  labels: readonly Entry[],
  hints: HttpHints,
): void {
  const stripped = new Set<string>();
  for (const label of labels) convertTraefikLabel(conversion, label, hints, stripped);
  const [prefix] = hints.prefixes.keys();
  if (prefix !== undefined && stripped.has(prefix.replace(/\/+$/, ""))) hints.stripPrefix = true;
}

function convertTraefikLabel(
  scope: ServiceConversion,
  { key, value }: Entry,
  hints: HttpHints,
  stripped: Set<string>,
): void {
  const text = value.kind === "scalar" ? value.text : "";
  if (key === "traefik.enable") {
    if (!/^true$/i.test(text)) {
      scope.addNote(
        value,
        "this service was disabled for Traefik; with Berth, an App with a port has a domain",
      );
    }
    return;
  }
  if (key === "traefik.docker.network") return;
  const [, section, name = "", option = ""] =
    /^traefik\.http\.(routers|services|middlewares)\.([^.]+)\.(.+)$/.exec(key) ?? [];
  if (section === "routers" && option === "rule")
    return convertTraefikRule(scope, { key, value }, hints, text);
  if (section === "routers" && ignoredRouterOptions.test(option)) return;
  if (section === "routers" && option === "middlewares") {
    scope.addNote(value, `the findings about the middlewares ${text} are at their declarations`);
    return;
  }
  if (section === "services" && option === "loadbalancer.server.port") {
    if (/^\d{1,5}$/.test(text) && hints.port === undefined) hints.port = Number(text);
    else if (String(hints.port) !== text) {
      scope.addLoss(
        value,
        `an app has only one port, and already has ${hints.port ?? "none"}: "${text}" is omitted`,
      );
    }
    return;
  }
  if (section === "services" && option === "loadbalancer.server.scheme" && text === "http") return;
  if (section === "middlewares" && /^stripprefix\.prefixes$/i.test(option)) {
    for (const prefix of text.split(",")) stripped.add(prefix.trim().replace(/\/+$/, ""));
    return;
  }
  if (section === "middlewares" && /^redirectscheme\.(scheme|permanent)$/i.test(option)) return;
  if (section === "middlewares" && /^basicauth\./i.test(option)) {
    scope.addLoss(
      value,
      `the users of the middleware ${name} are omitted: they are hashes, and Berth needs passwords`,
      `berth secrets set ${scope.app}-users NAME=PASSWORD, and ingress.basicAuth: { secret: ${scope.app}-users }`,
    );
    return;
  }
  scope.addLoss(value, `the label ${key} has no equivalent in Berth's ingress`);
}

function convertTraefikRule(
  scope: ServiceConversion,
  { key, value }: Pick<Entry, "key" | "value">,
  hints: HttpHints,
  rule: string,
): void {
  const clauses = parseTraefikRule(rule);
  if (!clauses) {
    scope.addLoss(
      value,
      `the rule of ${key} cannot be parsed`,
      "set domain, and ingress.pathPrefix",
    );
    return;
  }
  for (const clause of clauses) {
    for (const domain of clause.hosts)
      hints.domains.push({ domain: domain.toLowerCase(), node: value });
    for (const prefix of clause.prefixes) {
      if (prefix !== "/" && !hints.prefixes.has(prefix)) hints.prefixes.set(prefix, value);
    }
  }
  const others = [...new Set(clauses.flatMap((clause) => clause.others))];
  if (others.length > 0) {
    scope.addLoss(
      value,
      `${others.join(", ")} in the rule is omitted: an App has domains and one path prefix`,
    );
  }
  const isMixed =
    clauses.some((clause) => clause.prefixes.length > 0) &&
    clauses.some((clause) => clause.prefixes.length === 0);
  if (isMixed) scope.addLoss(value, "the path prefix applies to all domains of the app");
}
