/** A parsed entry of `ports`; an entry with a range becomes several mappings. */
export interface PortMapping {
  readonly container: number;
  /** The port on the machine; undefined if the engine chooses one. */
  readonly host: number | undefined;
  readonly address: string | undefined;
  readonly protocol: string;
}

/**
 * The maximum number of ports in a range of the Compose file. It is larger than the number of ports that an App may
 * have.
 */
const RANGE_MAX = 100;

/**
 * Parses `[[address:]host:]container[/protocol]`, with ranges. Returns a description of the problem if the entry is
 * invalid.
 */
export function parseShortPort(text: string): PortMapping[] | string {
  const [mapping = "", protocol = "tcp", ...more] = text.trim().split("/");
  if (more.length > 0) return "has more than one /";
  const match = /^(?:(.*?):)??(?:([0-9-]*):)?([0-9-]+)$/.exec(mapping);
  if (!match) return "is not a port";
  const address = match[1]?.replace(/^\[|\]$/g, "");
  return expandPortMappings({ address, host: match[2], container: match[3] ?? "", protocol });
}

export function expandPortMappings(parts: {
  address: string | undefined;
  host: string | undefined;
  container: string;
  protocol: string;
}): PortMapping[] | string {
  const protocol = parts.protocol.toLowerCase();
  const containers = parsePortRange(parts.container);
  const hosts =
    parts.host === undefined || parts.host === "" ? undefined : parsePortRange(parts.host);
  if (!containers || (parts.host && !hosts)) return "is not a port from 1 to 65535";
  if (containers.length > RANGE_MAX) return `has more than ${RANGE_MAX} ports`;
  // With a host range for one container port, Compose uses the first free port of the range; Berth uses the first port
  // of the range.
  if (hosts && hosts.length !== containers.length && containers.length !== 1) {
    return "has ranges of different lengths";
  }
  const address = parts.address || undefined;
  return containers.map((container, index) => ({
    container,
    host: hosts?.[index],
    address,
    protocol,
  }));
}

function parsePortRange(text: string): number[] | undefined {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text);
  if (!match) return undefined;
  const first = Number(match[1]);
  const last = match[2] === undefined ? first : Number(match[2]);
  if (first < 1 || last > 65_535 || last < first) return undefined;
  return Array.from({ length: Math.min(last - first + 1, RANGE_MAX + 1) }, (_, at) => first + at);
}
