import { isIP } from "node:net";
import { type ComposeNode, getValue, isNull, listItems } from "./compose-tree.ts";
import type { HttpHints } from "./http-hints.ts";
import { expandPortMappings, type PortMapping, parseShortPort } from "./published-port.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Well-known ports of protocols other than HTTP, such as mail, databases, queues, SSH and DNS. */
const nonHttpPorts: ReadonlySet<number> = new Set([
  21, 22, 25, 53, 110, 123, 143, 161, 389, 445, 465, 587, 636, 853, 993, 995, 1433, 1521, 1883,
  1935, 2222, 3306, 3389, 4222, 5222, 5269, 5353, 5432, 5433, 5671, 5672, 6379, 6380, 8554, 8883,
  9042, 9092, 11_211, 22_000, 27_017, 51_820,
]);
const httpsPorts: readonly number[] = [443, 8443, 9443];
/** The ports on which the ingress listens. */
const ingressPorts: readonly number[] = [80, 443];

interface PublishedMapping extends PortMapping {
  readonly node: ComposeNode;
}

/** Sets `port` to the HTTP port, and `ports` to the other published ports. */
export function convertPorts(conversion: ServiceConversion, hints: HttpHints): void {
  const published = readPublishedPorts(conversion);
  const exposed = readExposedPorts(conversion);
  const tcp = published.filter(({ protocol }) => protocol === "tcp");
  const port =
    hints.port ??
    findLikelyHttpPort(exposed.map(({ container }) => container)) ??
    findLikelyHttpPort(tcp.map(({ container }) => container));
  if (port !== undefined) conversion.spec.port = port;
  for (const { container, node } of exposed) {
    if (container === port) conversion.markHandled(node);
    else {
      conversion.addNote(
        node,
        `port ${container} needs no declaration: apps reach all ports of each other`,
      );
    }
  }
  const kept = published.filter((item) => shouldPublish(conversion, item, port));
  if (kept.length === 0) return;
  if ((conversion.spec.replicas ?? 1) > 1) {
    for (const { node, host } of kept) {
      conversion.addLoss(
        node,
        `port ${host} of the machine can belong to only one container, and this app has ${conversion.spec.replicas}`,
        "remove replicas to publish the port",
      );
    }
    return;
  }
  conversion.spec.ports = kept.map(({ host, container, protocol, address }) => ({
    host: host ?? container,
    container,
    ...(protocol === "udp" ? { protocol } : {}),
    ...(address === undefined || address === "0.0.0.0" ? {} : { address }),
  }));
}

/** Returns the first port that probably serves HTTP. A usual HTTPS port is returned only if there is no other port. */
function findLikelyHttpPort(ports: readonly number[]): number | undefined {
  const likely = ports.filter((port) => !nonHttpPorts.has(port));
  return likely.find((port) => !httpsPorts.includes(port)) ?? likely[0];
}

/** Returns true if the port should be added to `ports`. Otherwise reports why it is not. */
function shouldPublish(
  conversion: ServiceConversion,
  item: PublishedMapping,
  port: number | undefined,
): boolean {
  const { node, container, host, protocol, address } = item;
  if (container === port && protocol === "tcp") {
    const keep = ingressPorts.includes(host ?? container)
      ? `the ingress can listen on port ${host ?? container} itself`
      : `ports: [{ host: ${host ?? container}, container: ${container} }] publishes it as before`;
    if (httpsPorts.includes(container)) {
      conversion.addLoss(
        node,
        `is used as the port of the app, but ${container} is probably HTTPS, and the ingress connects with HTTP`,
        `set port to the HTTP port; ${keep}`,
      );
    } else {
      conversion.addNote(
        node,
        `${container} is used as the HTTP port: clients reach the app at its domain${host === undefined ? "" : ` instead of port ${host}`}`,
        keep,
      );
    }
    return false;
  }
  if (protocol !== "tcp" && protocol !== "udp") {
    conversion.addLoss(node, `the protocol ${protocol} cannot be published`);
    return false;
  }
  if (host === undefined) {
    conversion.addLoss(
      node,
      `port ${container} has no fixed port on the machine, and is not published`,
      "other apps can reach it; to publish it, add it to ports with a host port",
    );
    return false;
  }
  if (ingressPorts.includes(host)) {
    conversion.addLoss(
      node,
      `port ${host} of the machine belongs to Berth's ingress`,
      "remove a reverse proxy of your own, and give the apps behind it domains",
    );
    return false;
  }
  if (address !== undefined && isIP(address) === 0) {
    conversion.addLoss(node, `"${address}" is not an IP address`, `add port ${container} to ports`);
    return false;
  }
  return true;
}

function readPublishedPorts(conversion: ServiceConversion): PublishedMapping[] {
  const found: PublishedMapping[] = [];
  for (const item of listItems(conversion.getNode("ports"))) {
    if (isNull(item)) continue;
    conversion.markHandled(item);
    const read =
      item.kind === "scalar" ? parseShortPort(item.text) : readLongPort(conversion, item);
    if (typeof read === "string") conversion.addLoss(item, `is omitted: it ${read}`);
    else found.push(...read.map((mapping) => ({ ...mapping, node: item })));
  }
  const seen = new Set<string>();
  return found.filter((item) => {
    const key = JSON.stringify([item.host, item.container, item.protocol, item.address]);
    return !seen.has(key) && seen.add(key);
  });
}

const longPortKeys: readonly string[] = ["target", "published", "host_ip", "protocol"];

function readLongPort(conversion: ServiceConversion, item: ComposeNode): PortMapping[] | string {
  if (item.kind !== "map") return "is not a port";
  for (const entry of conversion.listEntries(item)) {
    if (!longPortKeys.includes(entry.key)) {
      conversion.addNote(entry, `${entry.key} of a port has no meaning on one machine`);
    }
  }
  return expandPortMappings({
    container: conversion.readText(getValue(item, "target")) ?? "",
    host: conversion.readText(getValue(item, "published")),
    address: conversion.readText(getValue(item, "host_ip")),
    protocol: conversion.readText(getValue(item, "protocol")) ?? "tcp",
  });
}

function readExposedPorts(scope: ServiceConversion): { container: number; node: ComposeNode }[] {
  return scope.readTexts(scope.getNode("expose")).flatMap((node) => {
    const read = parseShortPort(node.text);
    if (typeof read === "string") {
      scope.addLoss(node, `is omitted: it ${read}`);
      return [];
    }
    scope.markHandled(node);
    return read.flatMap(({ container, protocol }) => {
      if (protocol === "tcp") return [{ container, node }];
      scope.addNote(
        node,
        `port ${container} needs no declaration: apps reach all ports of each other`,
      );
      return [];
    });
  });
}
