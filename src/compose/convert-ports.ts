import { isIP } from "node:net";
import { type ComposeNode, getValue, isNull, listItems } from "./compose-tree.ts";
import type { HttpHints } from "./http-hints.ts";
import { expandPortMappings, type PortMapping, parseShortPort } from "./published-port.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Well-known ports of what is no HTTP: mail, databases, queues, shells, names. */
const nonHttpPorts: ReadonlySet<number> = new Set([
  21, 22, 25, 53, 110, 123, 143, 161, 389, 445, 465, 587, 636, 853, 993, 995, 1433, 1521, 1883,
  1935, 2222, 3306, 3389, 4222, 5222, 5269, 5353, 5432, 5433, 5671, 5672, 6379, 6380, 8554, 8883,
  9042, 9092, 11_211, 22_000, 27_017, 51_820,
]);
const httpsPorts: readonly number[] = [443, 8443, 9443];
/** Those that the ingress listens on. */
const ingressPorts: readonly number[] = [80, 443];

interface PublishedMapping extends PortMapping {
  readonly node: ComposeNode;
}

/** `port`, the one that serves HTTP, and `ports`, which stay ports of the machine. */
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
        `port ${container} need not be declared: apps reach every port of each other`,
      );
    }
  }
  const kept = published.filter((item) => shouldPublish(conversion, item, port));
  if (kept.length === 0) return;
  if ((conversion.spec.replicas ?? 1) > 1) {
    for (const { node, host } of kept) {
      conversion.addLoss(
        node,
        `port ${host} of the machine belongs to one container, and this app has ${conversion.spec.replicas}`,
        "leave replicas out to have it",
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

/** The first that is likely to speak HTTP; one that wants TLS only where there is no other. */
function findLikelyHttpPort(ports: readonly number[]): number | undefined {
  const likely = ports.filter((port) => !nonHttpPorts.has(port));
  return likely.find((port) => !httpsPorts.includes(port)) ?? likely[0];
}

/** Whether it is to be in `ports`; says what becomes of it where it is not. */
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
        `taken as the port of the app, but ${container} is likely to want HTTPS, and the ingress speaks HTTP`,
        `set port to the one that serves HTTP; ${keep}`,
      );
    } else {
      conversion.addNote(
        node,
        `${container} is taken as the port that serves HTTP: the app is reached at its domain${host === undefined ? "" : ` in place of port ${host}`}`,
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
      `port ${container} has no fixed port of the machine, and is not published`,
      "other apps reach it all the same; add it to ports with a host port for everybody else",
    );
    return false;
  }
  if (ingressPorts.includes(host)) {
    conversion.addLoss(
      node,
      `port ${host} of the machine is the one of Berth's ingress`,
      "leave a reverse proxy of your own out, and give the apps behind it a domain",
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
    if (typeof read === "string") conversion.addLoss(item, `is left out: it ${read}`);
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
      scope.addLoss(node, `is left out: it ${read}`);
      return [];
    }
    scope.markHandled(node);
    return read.flatMap(({ container, protocol }) => {
      if (protocol === "tcp") return [{ container, node }];
      scope.addNote(
        node,
        `port ${container} need not be declared: apps reach every port of each other`,
      );
      return [];
    });
  });
}
