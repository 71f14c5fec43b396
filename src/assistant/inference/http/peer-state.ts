import { readFile } from "node:fs/promises";
import { isIPv4, isIPv6, type Socket } from "node:net";
import { endianness } from "node:os";

/**
 * The state of the other end of a connection that has sent its last byte. reads: the peer has closed only its sending
 * half and waits for the answer. gone: no process has the peer's end open any more. missing: neither end is listed, for
 * example after a reset; if a second check also finds this, the connection was reset. unknown: the check failed, or
 * this system does not support it.
 */
export type PeerState = "reads" | "gone" | "missing" | "unknown";

/**
 * Determines the state of the other end of half-closed connections. Until data is sent, this end cannot distinguish a
 * peer that has closed only its sending half from one that has closed the connection. But the peer is on this machine,
 * so the kernel's table of connections lists its end, without an inode if no process has it open.
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

/** Determines the state of one peer. The table changes while it is read, so one missing line proves nothing. */
function getPeerState({ peer, own }: SocketEndpoints, { inodes, listening }: TcpTable): PeerState {
  const inode = inodes.get(`${peer} ${own}`);
  if (inode !== undefined) return inode === "0" ? "gone" : "reads";
  // Node does not report a reset after the last byte, and the kernel removes the connection from its table. If this
  // table does not list the server's listening port, the server's connections are in another table.
  return !inodes.has(`${own} ${peer}`) && listening.has(getPort(own)) ? "missing" : "unknown";
}

interface TcpTable {
  readonly inodes: Map<string, string>;
  /** The listening ports, in the notation of the table. */
  readonly listening: Set<string>;
}

const LISTEN_STATE = "0A";
const getPort = (end: string) => end.slice(end.indexOf(":") + 1);

/** Both ends of a connection, in the notation of the kernel's table. */
export interface SocketEndpoints {
  readonly table: "/proc/net/tcp" | "/proc/net/tcp6";
  /** The address and the port of this end, in the notation of the table. */
  readonly own: string;
  readonly peer: string;
}

/**
 * Returns both ends of a connection, or undefined if the addresses are not available. Must be called early, because the
 * addresses are lost after a reset.
 */
export function getEndpoints(socket: Socket): SocketEndpoints | undefined {
  const { localAddress, localPort, remoteAddress, remotePort } = socket;
  if (localAddress === undefined || remoteAddress === undefined) return undefined;
  const own = formatEndpoint(localAddress, localPort);
  const peer = formatEndpoint(remoteAddress, remotePort);
  if (own === undefined || peer === undefined) return undefined;
  return { table: isIPv4(localAddress) ? "/proc/net/tcp" : "/proc/net/tcp6", own, peer };
}

/**
 * Formats an address and a port as in the table: `127.0.0.1` and 7777 become `0100007F:1E61`. The 32-bit words are in
 * the byte order of this machine.
 */
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
  // IPv4 addresses in IPv6 notation are in the other table, in another format.
  if (!isIPv6(address) || address.includes(".") || address.includes("%")) return undefined;
  const [head = "", tail] = address.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => "0");
  const words = [...left, ...zeros, ...right].map((word) => Number.parseInt(word, 16));
  return Buffer.from(words.flatMap((word) => [word >> 8, word & 0xff]));
}

/**
 * Parses the lines of the table, which follow one header line: `sl local remote st queues timer retransmits uid timeout
 * inode ...`.
 */
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
    // The file does not exist on this system, or this process may not read it.
    return "";
  }
}
