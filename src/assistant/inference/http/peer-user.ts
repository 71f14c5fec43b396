import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { parseTcpSockets, TCP_STATE } from "../../../base/tcp-sockets.ts";
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

/**
 * Finds the user whose program is at the other end of a connection over loopback, by the program's own socket in the
 * kernel's tables of TCP sockets. Resolves to undefined if there is no such socket, for example because the program has
 * closed it, or if the tables cannot be read. The user is the one who created the socket, not a process that got it
 * later.
 */
export async function findPeerUser(socket: Socket): Promise<number | undefined> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    for (const table of tables) {
      const user = findUser(await table.get(), socket);
      if (user !== undefined) return user;
    }
  }
  return undefined;
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

/**
 * Returns the user who created the socket at the other end of `socket`; undefined if no row describes that socket. Only
 * the rows with the client's port are parsed.
 */
function findUser(rows: RowsByPort, socket: Socket): number | undefined {
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
  )?.uid;
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
