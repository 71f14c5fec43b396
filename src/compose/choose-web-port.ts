import type { HttpHints, WebPort } from "./http-hints.ts";
import { findHealthCheckPort, listForeignPorts } from "./own-ports.ts";
import type { ServiceConversion } from "./service-conversion.ts";
import { canBeWebPort, getImageWebPort, isProgramWithoutWeb, isUsualWebPort } from "./web-ports.ts";

/**
 * Chooses the HTTP port of a service by evidence, strongest first: labels of a reverse proxy, PORT and the URL of the
 * health check, the known port of the image, usual web ports. Returns undefined without evidence. `published` and
 * `exposed` are TCP ports in the container, and `datagrams` its published UDP ports.
 */
export function chooseWebPort(
  conversion: ServiceConversion,
  hints: HttpHints,
  {
    published,
    exposed,
    datagrams,
  }: {
    readonly published: readonly number[];
    readonly exposed: readonly number[];
    readonly datagrams: readonly number[];
  },
): WebPort | undefined {
  const given = conversion.options.publicPorts.get(conversion.service);
  if (given !== undefined) return { port: given, evidence: "--public" };
  if (hints.port) return hints.port;
  const { image } = conversion.spec;
  const isRouted =
    hints.domains.length > 0 || conversion.options.publicPorts.has(conversion.service);
  if (isProgramWithoutWeb(image, conversion.service) && !isRouted) return undefined;
  const open = [...published, ...exposed];
  // A port that serves UDP too belongs to a protocol such as DNS, syslog or the protocol of a game, so it is not a
  // web port.
  const foreign = new Set([...datagrams, ...listForeignPorts(conversion.body)]);
  const canBeWeb = (port: number) => canBeWebPort(port) && !foreign.has(port);
  const usual = published.filter((port) => isUsualWebPort(port) && canBeWeb(port));
  const own = listOwnPorts(conversion).filter(
    ({ port }) => canBeWeb(port) && (usual.length === 0 || open.includes(port)),
  );
  if (own[0]) return own[0];
  const known = getImageWebPort(image);
  if (known !== undefined && (open.includes(known) || (isRouted && open.length === 0))) {
    return { port: known, evidence: `the usual port of ${image}` };
  }
  const likely = [...usual, ...exposed.filter((port) => isUsualWebPort(port) && canBeWeb(port))];
  const port = likely.find((candidate) => candidate === 80) ?? likely[0];
  if (port !== undefined) return { port, evidence: "its number, which is a usual one for HTTP" };
  return isRouted && open.length === 1 && open[0] !== undefined && canBeWebPort(open[0])
    ? { port: open[0], evidence: "its only port" }
    : undefined;
}

/** Lists the ports that the service itself names: in PORT, and in the URL of its health check. */
function listOwnPorts(conversion: ServiceConversion): WebPort[] {
  const variable = conversion.env.get("PORT")?.value ?? "";
  const found = /^\d{1,5}$/.test(variable)
    ? [{ port: Number(variable), evidence: "the variable PORT" }]
    : [];
  const checked = findHealthCheckPort(conversion.body);
  if (checked !== undefined) found.push({ port: checked, evidence: "the URL of the health check" });
  return found;
}
