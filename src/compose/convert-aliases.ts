import { getServiceName } from "../resources/stack.ts";
import {
  type ComposeNode,
  getValue,
  listEntries,
  listScalars,
  type Mapping,
  type Scalar,
} from "./compose-tree.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Matches the names that an alias may have; `Alias` in the schema of an App has the same rule. */
const aliasPattern = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/;

/** The maximum length of a host name of Linux. */
const HOSTNAME_LENGTH_MAX = 63;

/** Returns the host name of a service; undefined if it has none, or one that a container cannot have. */
export function getHostname(body: Mapping): Scalar | undefined {
  const node = getValue(body, "hostname");
  if (node?.kind !== "scalar" || node.text.length > HOSTNAME_LENGTH_MAX) return undefined;
  return aliasPattern.test(node.text) ? node : undefined;
}

/** The maximum number of aliases of an App. */
const ALIASES_MAX = 20;

/**
 * Gives the App each name under which other services reach the service in Compose, as an alias in the network of the
 * stack: the service's own name, its container name and host name, its aliases on networks, and the aliases that other
 * services give it in `links`. So no value and no file has to change because the App has another name.
 */
export function convertAliases(
  conversion: ServiceConversion,
  conversions: readonly ServiceConversion[],
): void {
  const { app, service, body, spec, options } = conversion;
  const own = [
    getValue(body, "container_name"),
    getHostname(body),
    ...listEntries(getValue(body, "networks")).map(({ value }) => getValue(value, "aliases")),
  ].flatMap(listScalars);
  const known = new Set([app, getServiceName(app, options.stack)]);
  const names = new Map<string, ComposeNode | undefined>([[service, undefined]]);
  for (const scalar of own) names.set(scalar.text, scalar);
  for (const name of conversions.flatMap((other) => listLinkAliases(other.body, service)))
    if (!names.has(name)) names.set(name, undefined);
  const aliases: string[] = [];
  for (const [name, node] of names) {
    if (node) conversion.markHandled(node);
    if (name === "" || known.has(name)) continue;
    if (aliasPattern.test(name) && aliases.length < ALIASES_MAX) aliases.push(name);
    else {
      const message = `other apps do not reach the app as "${name}": ${aliases.length < ALIASES_MAX ? "that is no host name" : `an app has at most ${ALIASES_MAX} aliases`}`;
      if (node) conversion.addLoss(node, message);
      else conversion.addServiceFinding("lost", message);
    }
  }
  if (aliases.length > 0) spec.aliases = aliases;
}

/** Lists the aliases that a service gives another one in `links`: `db` in `postgres:db`. */
function listLinkAliases(body: Mapping, service: string): string[] {
  return listScalars(getValue(body, "links")).flatMap(({ text }) => {
    const [target, alias] = text.split(":");
    return target === service && alias ? [alias] : [];
  });
}
