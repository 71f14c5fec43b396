import { isIP } from "node:net";
import { chooseWebPort } from "./choose-web-port.ts";
import { type ComposeNode, getValue, isNull, listItems } from "./compose-tree.ts";
import type { HttpHints, WebPort } from "./http-hints.ts";
import { expandPortMappings, type PortMapping, parseShortPort } from "./published-port.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** The ports on which the ingress listens. */
const ingressPorts: readonly number[] = [80, 443];

/** The maximum number of published or exposed ports of a service that are read. */
const PORTS_MAX = 1000;

interface PublishedMapping extends PortMapping {
  readonly node: ComposeNode;
}

export interface ConvertedPorts {
  readonly web: WebPort | undefined;
  /** The mapping by which Compose would publish the HTTP port on all addresses of the machine. */
  readonly published: ComposeNode | undefined;
}

function containersOf(mappings: readonly PublishedMapping[]): readonly number[] {
  return mappings.map(({ container }) => container);
}

/** Sets the spec's `port` to the HTTP port, and its `ports` to the other ports to publish on the machine. */
export function convertPorts(conversion: ServiceConversion, hints: HttpHints): ConvertedPorts {
  const published = readPublishedPorts(conversion);
  const exposed = readExposedPorts(conversion);
  const tcp = published.filter(({ protocol }) => protocol === "tcp");
  const web = chooseWebPort(conversion, hints, {
    published: containersOf(tcp.filter(({ host }) => host !== undefined)),
    chosen: containersOf(tcp.filter(({ host }) => host === undefined)),
    exposed: exposed.map(({ container }) => container),
    datagrams: published
      .filter(({ protocol }) => protocol === "udp")
      .map(({ container }) => container),
  });
  if (web) conversion.spec.port = web.port;
  for (const { container, node } of exposed) {
    if (container === web?.port) {
      conversion.addNote(node, `${container} is the port of the app, because of ${web.evidence}`);
    } else {
      conversion.addNote(
        node,
        `port ${container} needs no declaration: apps can reach each other on all ports`,
      );
    }
  }
  const isOpenWebPort = (item: PublishedMapping) =>
    item.container === web?.port &&
    web.isPrivate !== true &&
    item.protocol === "tcp" &&
    item.host !== undefined &&
    isOpenToAll(item.address);
  for (const item of published.filter(isOpenWebPort)) reportReplacedPort(conversion, item);
  const others = published.filter((item) => !isOpenWebPort(item));
  writeMachinePorts(
    conversion,
    others.filter((item) => shouldPublish(conversion, item, web)),
  );
  return { web, published: published.find(isOpenWebPort)?.node };
}

/** True for a port that is open on all addresses of the machine. */
function isOpenToAll(address: string | undefined): boolean {
  return address === undefined || address === "0.0.0.0" || address === "::";
}

/** Reports a published port that is replaced by a domain of the app. */
function reportReplacedPort(conversion: ServiceConversion, item: PublishedMapping): void {
  const { node, container, host = container } = item;
  conversion.addChange(
    node,
    `${container} is used as the HTTP port: clients reach the app at its domain instead of port ${host}`,
    ingressPorts.includes(host)
      ? `the ingress can listen on port ${host} itself`
      : `ports: [{ host: ${host}, container: ${container} }] publishes it as before`,
  );
}

function writeMachinePorts(conversion: ServiceConversion, kept: readonly PublishedMapping[]): void {
  if (kept.length === 0) return;
  const { replicas = 1 } = conversion.spec;
  if (replicas > 1) {
    for (const { node, host } of kept) {
      conversion.addLoss(
        node,
        `port ${host} of the machine can belong to only one container, and this app has ${replicas}`,
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
  for (const { host, container, protocol, address, node } of kept) {
    if (isLoopback(address)) continue;
    conversion.addPublic({
      url: null,
      port: `${address === undefined || isOpenToAll(address) ? "" : `${address}:`}${host ?? container}/${protocol}`,
      why: `it is published on ${isOpenToAll(address) ? "every address of the machine" : `the address ${address}`}`,
      place: node.place,
    });
  }
}

function isLoopback(address: string | undefined): boolean {
  return address !== undefined && /^(127\.|::1$|localhost$)/.test(address);
}

/** Returns true if the port should be added to `ports`. Otherwise reports why it is not. */
function shouldPublish(
  conversion: ServiceConversion,
  item: PublishedMapping,
  web: WebPort | undefined,
): boolean {
  const { node, container, host, protocol, address } = item;
  if (protocol !== "tcp" && protocol !== "udp") {
    conversion.addLoss(node, `the protocol ${protocol} cannot be published`);
    return false;
  }
  if (host === undefined && container === web?.port) {
    conversion.addChange(
      node,
      `${container} is the port of the app, because of ${web.evidence}: without a fixed port of the machine it is private`,
      `--public ${conversion.service} gives the app a domain`,
    );
    return false;
  }
  if (host === undefined) {
    conversion.addLoss(
      node,
      `port ${container} has no fixed port on the machine, and is not published`,
      "other apps can reach this port; to publish it, add it to ports with a host port",
    );
    return false;
  }
  if (ingressPorts.includes(host) && isOpenToAll(address)) {
    conversion.addLoss(
      node,
      `port ${host} of the machine belongs to Berth's ingress`,
      "remove your own reverse proxy from the project, and give the apps behind it domains",
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
      found.length > PORTS_MAX
        ? `is after the first ${PORTS_MAX} ports`
        : item.kind === "scalar"
          ? parseShortPort(item.text)
          : readLongPort(conversion, item);
    if (typeof read === "string") conversion.addLoss(item, `this port is omitted: it ${read}`);
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
  let count = 0;
  return scope.readTexts(scope.getNode("expose")).flatMap((node) => {
    const read =
      count > PORTS_MAX ? `is after the first ${PORTS_MAX} ports` : parseShortPort(node.text);
    if (typeof read === "string") {
      scope.addLoss(node, `this port is omitted: it ${read}`);
      return [];
    }
    count += read.length;
    scope.markHandled(node);
    return read.flatMap(({ container, protocol }) => {
      if (protocol === "tcp") return [{ container, node }];
      scope.addNote(
        node,
        `port ${container} needs no declaration: apps can reach each other on all ports`,
      );
      return [];
    });
  });
}
