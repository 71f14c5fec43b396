import type { HttpHints, WebPort } from "./http-hints.ts";
import { getImageWebPort, getRepository } from "./image-ports.ts";
import {
  findHealthCheckPort,
  listForeignPorts,
  listPortVariables,
  listVariables,
} from "./own-ports.ts";
import type { ServiceConversion } from "./service-conversion.ts";
import { canBeWebPort, isProgramWithoutWeb, isUsualWebPort } from "./web-ports.ts";

/** The TCP ports in a container that a service declares. */
export interface DeclaredPorts {
  /** The ports that are published on a port of the machine that the file names. */
  readonly published: readonly number[];
  /** The ports that are published on a port of the machine that the engine chooses. */
  readonly chosen: readonly number[];
  readonly exposed: readonly number[];
  /** The published UDP ports. */
  readonly datagrams: readonly number[];
}

/**
 * Chooses the HTTP port of a service by evidence, strongest first: `--public`, labels of a reverse proxy, variables of
 * a catalog, the service's own variables and the URL of its health check, the known port of the image, the URLs with
 * which other services call it, usual web ports, its only port. Returns undefined without evidence.
 */
export function chooseWebPort(
  conversion: ServiceConversion,
  hints: HttpHints,
  { published, chosen, exposed, datagrams }: DeclaredPorts,
): WebPort | undefined {
  const { options, service, spec, body } = conversion;
  const given = options.publicPorts.get(service);
  if (given !== undefined) return { port: given, evidence: "--public" };
  if (hints.port) return hints.port;
  const isRouted =
    hints.domains.length > 0 || hints.route !== undefined || options.publicPorts.has(service);
  // A port that serves UDP too belongs to a protocol such as DNS, syslog or the protocol of a game, so it is not a
  // web port.
  const foreign = new Set([...datagrams, ...listForeignPorts(body)]);
  const canBeWeb = (port: number) => canBeWebPort(port) && !foreign.has(port);
  const open = [...new Set([...published, ...chosen, ...exposed])].filter(canBeWeb);
  const known = getImageWebPort(spec.image);
  const fitsImage =
    known !== undefined &&
    (open.includes(known) || (open.length === 0 && (isRouted || isOnlyUse(conversion))));
  const image = fitsImage
    ? { port: known, evidence: `the usual port of ${spec.image}` }
    : undefined;
  if (isProgramWithoutWeb(spec.image, service) && !isRouted)
    return image && { ...image, isPrivate: true };

  const usual = [...published, ...chosen].filter((port) => isUsualWebPort(port) && canBeWeb(port));
  const [own] = listOwnPorts(conversion, open).filter(
    ({ port }) => canBeWeb(port) && (usual.length === 0 || open.includes(port)),
  );
  if (own) return own;
  const called = [...(options.calledPorts.get(service) ?? [])].filter(
    (port) => canBeWeb(port) && (open.length === 0 || open.includes(port)),
  );
  if (image) return image;
  if (called.length === 1 && called[0] !== undefined)
    return { port: called[0], evidence: "the URL with which another service calls it" };
  const likely = [...usual, ...exposed.filter((port) => isUsualWebPort(port) && canBeWeb(port))];
  const port = likely.find((candidate) => candidate === 80) ?? likely[0];
  if (port !== undefined) return { port, evidence: "its number, which is usual for HTTP" };
  const [only, ...others] = open;
  // A port of the machine stays one: without a route, nothing says that it speaks HTTP.
  return only !== undefined && others.length === 0 && (isRouted || !published.includes(only))
    ? { port: only, evidence: "its only port" }
    : undefined;
}

/**
 * Returns false if another service runs the same image: one of the two is then probably a worker, which serves no
 * requests. A service with a command of its own is the worker.
 */
function isOnlyUse({ spec, service, options }: ServiceConversion): boolean {
  const users = options.imageUsers.get(getRepository(spec.image)) ?? [];
  if (users.length < 2) return true;
  const servers = users.filter(({ hasCommand }) => !hasCommand);
  return servers.length === 1 && servers[0]?.service === service;
}

/**
 * Lists the ports that the service itself names: in PORT, in the URL of its health check, and in other variables.
 * Services often share a list of variables, of which most concern only one of them: such a variable does not count,
 * and PORT not for a worker that declares no port.
 */
function listOwnPorts(conversion: ServiceConversion, open: readonly number[]): WebPort[] {
  const { env, body, spec, service, options } = conversion;
  const written = new Set(listVariables(body).map(({ key }) => key));
  const variables = listPortVariables(env.values(), [service, spec.image ?? ""]).filter(
    ({ name, port }) =>
      (written.has(name) && !options.sharedVariables.has(name)) ||
      (name === "PORT" && (open.includes(port) || isOnlyUse(conversion))),
  );
  const found = variables.map(({ name, port }) => ({ port, evidence: `the variable ${name}` }));
  const checked = findHealthCheckPort(body, service);
  if (checked === undefined) return found;
  const health = { port: checked, evidence: "the URL of the health check" };
  const exact = found.filter(({ evidence }) => evidence === "the variable PORT");
  return [...exact, health, ...found.filter((one) => !exact.includes(one))];
}
