import { readFile } from "node:fs/promises";
import { isIPv4, isIPv6, type Socket } from "node:net";
import { endianness } from "node:os";

/**
 * What has become of the other end of a connection that has sent its last byte.
 * reads: it has only closed its sending half, and waits for the answer.
 * gone: nobody holds its end any more. missing: neither end is to be seen, as of a connection that was reset; seen
 * twice, it was. unknown: nothing is to be seen this time, or never on this system.
 */
export type PeerState = "reads" | "gone" | "missing" | "unknown";

/**
 * A half-closed connection and one whose program has closed it, or died, look the same from this end
 * until something is written. The other end is on this machine, though, and the kernel's table of
 * connections has it: without an inode once no program holds it.
 */
export async function readPeerStates(
  ends: readonly (SocketEndpoints | undefined)[],
): Promise<readonly PeerState[]> {
  const families = new Set(ends.map((end) => end?.table));
  const seen: TcpTable = { inodes: new Map(), listening: new Set() };
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"] as const) {
    if (families.has(table)) parseTcpTable(seen, await readOrEmpty(table));
  }
  return ends.map((end) => (end ? getPeerState(end, seen) : "unknown"));
}

/** The table changes while it is read, so that a line may be missed: once, that says nothing. */
function getPeerState({ peer, own }: SocketEndpoints, { inodes, listening }: TcpTable): PeerState {
  const inode = inodes.get(`${peer} ${own}`);
  if (inode !== undefined) return inode === "0" ? "gone" : "reads";
  // Of a reset Node says nothing once the last byte was read, and the kernel has forgotten the connection.
  // A port that nobody listens on is in another table than this.
  return !inodes.has(`${own} ${peer}`) && listening.has(getPort(own)) ? "missing" : "unknown";
}

interface TcpTable {
  readonly inodes: Map<string, string>;
  /** Ports, as the table writes them. */
  readonly listening: Set<string>;
}

const LISTEN_STATE = "0A";
const getPort = (end: string) => end.slice(end.indexOf(":") + 1);

/** The two ends of a connection, as the kernel's table has them. */
export interface SocketEndpoints {
  readonly table: "/proc/net/tcp" | "/proc/net/tcp6";
  /** Address and port, as the table writes them. */
  readonly own: string;
  readonly peer: string;
}

/** Undefined where they are not to be found there. Asked early: of a connection that was reset nobody knows them. */
export function getEndpoints(socket: Socket): SocketEndpoints | undefined {
  const { localAddress, localPort, remoteAddress, remotePort } = socket;
  if (localAddress === undefined || remoteAddress === undefined) return undefined;
  const own = formatEndpoint(localAddress, localPort);
  const peer = formatEndpoint(remoteAddress, remotePort);
  if (own === undefined || peer === undefined) return undefined;
  return { table: isIPv4(localAddress) ? "/proc/net/tcp" : "/proc/net/tcp6", own, peer };
}

/** `127.0.0.1` and 7777 are `0100007F:1E61`: words of 32 bits in the order of this machine. */
function formatEndpoint(address: string, port: number | undefined): string | undefined {
  if (port === undefined) return undefined;
  const bytes = parseAddressBytes(address);
  if (!bytes) return undefined;
  let hex = "";
  for (let at = 0; at < bytes.length; at += 4) {
    const word = endianness() === "LE" ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
    hex += word.toString(16).padStart(8, "0");
  }
  return `${hex}:${port.toString(16).padStart(4, "0")}`.toUpperCase();
}

function parseAddressBytes(address: string): Buffer | undefined {
  if (isIPv4(address)) return Buffer.from(address.split(".").map(Number));
  // Addresses of IPv4 that are written as IPv6 stand in the other table, by rules of their own.
  if (!isIPv6(address) || address.includes(".") || address.includes("%")) return undefined;
  const [head = "", tail] = address.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => "0");
  const words = [...left, ...zeros, ...right].map((word) => Number.parseInt(word, 16));
  return Buffer.from(words.flatMap((word) => [word >> 8, word & 0xff]));
}

/** `sl local remote st queues timer retransmits uid timeout inode ...`, under one line of heads. */
function parseTcpTable({ inodes, listening }: TcpTable, table: string): void {
  for (const line of table.split("\n").slice(1)) {
    const [, local, remote, state, , , , , , inode] = line.trim().split(/\s+/);
    if (local === undefined || remote === undefined || inode === undefined) continue;
    inodes.set(`${local} ${remote}`, inode);
    if (state === LISTEN_STATE) listening.add(getPort(local));
  }
}

async function readOrEmpty(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch {
    // Not Linux, or hidden from this process.
    return "";
  }
}
