import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { parseTcpSockets, TCP_STATE, type TcpSocket } from "../../../base/tcp-sockets.ts";
import { SharedRead } from "./shared-read.ts";

/**
 * The kernel's tables of TCP sockets, which contain the clients' sockets on loopback. A client that connects to
 * 127.0.0.1 with an IPv6 socket is in the second table.
 */
const tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(
  // A table may have thousands of rows, and a program can open thousands of connections. So connections that are looked
  // up at the same time share one read of the table.
  (file) => new SharedRead(async () => indexRows(await readFile(file, "latin1").catch(() => ""))),
);
/**
 * While connections open and close, the kernel may leave out rows of /proc/net/tcp that have not changed. A connection
 * that is not found is therefore looked up again.
 */
const ATTEMPTS = 3;

/** The rows of one table of TCP sockets by their local port, which is hexadecimal as in the table. */
type RowsByPort = ReadonlyMap<string, readonly string[]>;

/** The sockets of clients of open connections. Most clients reuse connections. */
const known = new WeakMap<Socket, TcpSocket>();

/**
 * Finds the socket of the program at the other end of a connection over loopback in the kernel's table. Resolves to
 * undefined if there is no such socket, for example because the program has closed it, or if the table cannot be read.
 * The user of the socket is the one who created it, not a process that got it later.
 */
export async function findPeerSocket(socket: Socket): Promise<TcpSocket | undefined> {
  for (let attempt = 0; attempt < ATTEMPTS && !known.has(socket); attempt += 1) {
    for (const table of tables) {
      const found = findSocket(await table.get(), socket);
      if (found) known.set(socket, found);
    }
  }
  return known.get(socket);
}

function indexRows(table: string): RowsByPort {
  const rows = new Map<string, string[]>();
  for (const row of table.split("\n")) {
    const port = /^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) /.exec(row)?.[1];
    if (port === undefined) continue;
    const known = rows.get(port);
    if (known) known.push(row);
    else rows.set(port, [row]);
  }
  return rows;
}

/** Only the rows with the client's port are parsed. */
function findSocket(rows: RowsByPort, socket: Socket): TcpSocket | undefined {
  const { remoteAddress = "", remotePort = 0, localAddress = "", localPort } = socket;
  const port = remotePort.toString(16).toUpperCase().padStart(4, "0");
  // A socket that no process has open any more has the inode 0. Its user is then 0, which would look like root.
  return parseTcpSockets((rows.get(port) ?? []).join("\n")).find(
    (row) =>
      row.state === TCP_STATE.established &&
      row.inode !== "0" &&
      row.port === remotePort &&
      row.remotePort === localPort &&
      isAddress(row.address, remoteAddress) &&
      isAddress(row.remoteAddress, localAddress),
  );
}

/**
 * Compares an address from a table with an IPv4 address. The table of IPv6 sockets contains IPv4 addresses in mapped
 * form.
 */
function isAddress(found: string, address: string): boolean {
  if (found === address) return true;
  const hex = Buffer.from(address.split(".").map(Number)).toString("hex");
  return found === `0000:0000:0000:0000:0000:ffff:${hex.slice(0, 4)}:${hex.slice(4)}`;
}
