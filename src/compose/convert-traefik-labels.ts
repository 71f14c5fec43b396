import type { Entry } from "./compose-tree.ts";
import type { HttpHints } from "./http-hints.ts";
import { readRouterPorts } from "./route-labels.ts";
import type { ServiceConversion } from "./service-conversion.ts";
import { parseTraefikRule } from "./traefik-rule.ts";

/**
 * Router options that are ignored, because Berth's ingress applies them to every app or because they have no meaning
 * without Traefik.
 */
const ignoredRouterOptions = /^(entrypoints|tls|tls\.certresolver|tls\.domains.*|service)$/i;

const portLabel = /^traefik\.http\.services\.[^.]+\.loadbalancer\.server\.port$/;

/** Converts the hosts, the path prefix and the port in Traefik's labels, and reports all other labels. */
export function convertTraefikLabels(
  conversion: ServiceConversion,
  labels: readonly Entry[],
  hints: HttpHints,
): void {
  const stripped = new Set<string>();
  const [first] = labels.flatMap(({ key, value }) =>
    portLabel.test(key) && value.kind === "scalar" && /^\d{1,5}$/.test(value.text)
      ? [Number(value.text)]
      : [],
  );
  const ports = readRouterPorts(labels);
  for (const label of labels) {
    const router = /^traefik\.http\.routers\.([^.]+)\.rule$/.exec(label.key)?.[1];
    const port = router === undefined ? undefined : ports.get(router);
    if (port !== undefined && port !== first) {
      conversion.addLoss(
        label.value,
        `the router ${router} leads to port ${port}, and the app has only the port ${first}: the hosts of this router are omitted`,
        "an app of its own, or a reverse proxy in an app, can serve a second port",
      );
    } else convertTraefikLabel(conversion, label, hints, stripped);
  }
  reportForeignMiddlewares(conversion, labels);
  const [prefix] = hints.prefixes.keys();
  if (prefix !== undefined && stripped.has(prefix.replace(/\/+$/, ""))) hints.stripPrefix = true;
}

/**
 * Reports middlewares that a router of the service uses but that no label of the service declares. Such a middleware
 * may protect the service.
 */
function reportForeignMiddlewares(scope: ServiceConversion, labels: readonly Entry[]): void {
  const declared = new Set(
    labels.map(({ key }) => /^traefik\.http\.middlewares\.([^.]+)\./.exec(key)?.[1]),
  );
  for (const { key, value } of labels) {
    if (!/^traefik\.http\.routers\.[^.]+\.middlewares$/.test(key) || value.kind !== "scalar")
      continue;
    const foreign = value.text
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "" && !declared.has(name.replace(/@docker$/, "")));
    if (foreign.length === 0) continue;
    const message = `${foreign.join(", ")}: no label of this service declares this middleware, so the middleware is omitted`;
    if (foreign.some((name) => /auth|allow|white|ip|secure/i.test(name))) {
      scope.addUnsafe(
        value,
        message,
        "if the middleware limits access to the app, set ingress.basicAuth",
      );
    } else scope.addLoss(value, message);
  }
}

function convertTraefikLabel(
  scope: ServiceConversion,
  { key, value }: Entry,
  hints: HttpHints,
  stripped: Set<string>,
): void {
  const text = value.kind === "scalar" ? value.text : "";
  if (key === "traefik.enable") {
    if (!/^true$/i.test(text)) hints.isDisabled = true;
    return;
  }
  if (key === "traefik.docker.network") return;
  const [, section, name = "", option = ""] =
    /^traefik\.http\.(routers|services|middlewares)\.([^.]+)\.(.+)$/.exec(key) ?? [];
  if (section === "routers" && option === "rule")
    return convertTraefikRule(scope, { key, value }, hints, text);
  if (section === "routers" && ignoredRouterOptions.test(option)) return;
  if (section === "routers" && option === "middlewares") {
    scope.addNote(
      value,
      `other findings, at the declarations of the middlewares ${text}, report what is converted`,
    );
    return;
  }
  if (section === "services" && option === "loadbalancer.server.port") {
    if (/^\d{1,5}$/.test(text) && hints.port === undefined)
      hints.port = { port: Number(text), evidence: `the label ${key}` };
    else if (String(hints.port?.port) !== text) {
      scope.addLoss(
        value,
        `an app has only one port, and already has ${hints.port?.port ?? "none"}: "${text}" is omitted`,
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
    scope.addUnsafe(
      value,
      `the users of the middleware ${name} are omitted: they are hashes, and Berth needs passwords`,
      `berth secrets set ${scope.app}-users NAME=PASSWORD, and ingress.basicAuth: { secret: ${scope.app}-users }`,
    );
    return;
  }
  const message = `the label ${key} has no equivalent in Berth's ingress`;
  if (section === "middlewares" && accessMiddleware.test(option)) scope.addUnsafe(value, message);
  else scope.addLoss(value, message);
}

/** Middlewares that decide who has access. */
const accessMiddleware =
  /^(basicauth|digestauth|forwardauth|ipallowlist|ipwhitelist|passtlsclientcert)\./i;

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
    const message = `${others.join(", ")} in the rule is omitted: an App has domains and one path prefix`;
    if (others.includes("ClientIP")) scope.addUnsafe(value, message);
    else scope.addLoss(value, message);
  }
  const isMixed =
    clauses.some((clause) => clause.prefixes.length > 0) &&
    clauses.some((clause) => clause.prefixes.length === 0);
  if (isMixed) scope.addLoss(value, "the path prefix applies to all domains of the app");
}
