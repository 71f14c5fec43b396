import {
  collectScalars,
  getValue,
  listEntries,
  listScalars,
  type Mapping,
} from "./compose-tree.ts";
import { listVariables } from "./own-ports.ts";

/** The maximum length of a value that is searched for URLs. */
const VALUE_LENGTH_MAX = 65_536;

/**
 * Returns the ports of the services in URLs such as `http://api:8080` in any value of the project: such a service
 * serves HTTP on that port. A service is known under its own name, its container name, its host name and its aliases.
 */
export function listCalledPorts(
  services: ReadonlyMap<string, Mapping>,
): ReadonlyMap<string, ReadonlySet<number>> {
  const owners = new Map<string, string>();
  for (const [service, body] of services) {
    const names = [
      getValue(body, "container_name"),
      getValue(body, "hostname"),
      ...listEntries(getValue(body, "networks")).map(({ value }) => getValue(value, "aliases")),
    ].flatMap(listScalars);
    for (const { text } of names) if (!owners.has(text)) owners.set(text, service);
  }
  for (const service of services.keys()) owners.set(service, service);
  const found = new Map<string, Set<number>>();
  for (const scalar of [...services.values()].flatMap(collectScalars)) {
    const text = scalar.text.slice(0, VALUE_LENGTH_MAX);
    if (!text.includes("http://")) continue;
    for (const [, host = "", port] of text.matchAll(/http:\/\/([\w.-]+):(\d{1,5})(?!\d)/g)) {
      const service = owners.get(host);
      if (service === undefined) continue;
      found.set(service, (found.get(service) ?? new Set()).add(Number(port)));
    }
  }
  return found;
}

/** Returns the names of the variables that more than one service has in its `environment`. */
export function listSharedVariables(services: ReadonlyMap<string, Mapping>): ReadonlySet<string> {
  const seen = new Set<string>();
  const shared = new Set<string>();
  for (const body of services.values()) {
    for (const { key } of listVariables(body)) (seen.has(key) ? shared : seen).add(key);
  }
  return shared;
}
