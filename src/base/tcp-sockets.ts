import { endianness } from "node:os";

/** The states of TCP connections, as the kernel numbers them. */
export const TCP_STATE = {
  established: "01",
  synReceived: "03",
  finWait1: "04",
  closeWait: "08",
  listen: "0A",
} as const;

export interface TcpSocket {
  readonly address: string;
  readonly port: number;
  readonly remoteAddress: string;
  readonly remotePort: number;
  /** The state of the socket as the kernel writes it: two hexadecimal digits, such as those of `TCP_STATE`. */
  readonly state: string;
  /** The id of the user who created the socket. It is 0 also if no process has the socket open any more. */
  readonly uid: number;
  /** The inode number of the socket. It is "0" if no process has the socket open any more. */
  readonly inode: string;
}

/**
 * Parses the text of `/proc/net/tcp` or `/proc/net/tcp6`: `sl local remote st queues timer retransmits uid timeout
 * inode ...` in each line after the header. Other lines are ignored, so that the texts of both files may follow each
 * other.
 */
export function parseTcpSockets(table: string): TcpSocket[] {
  return table.split("\n").flatMap((line) => {
    const [index = "", local = "", remote = "", state = "", , , , uid, , inode = ""] = line
      .trim()
      .split(/\s+/);
    const [here, there] = [parseEndpoint(local), parseEndpoint(remote)];
    if (!here || !there || !/^\d+:$/.test(index)) return [];
    const { address: remoteAddress, port: remotePort } = there;
    return [{ ...here, remoteAddress, remotePort, state, uid: Number(uid), inode }];
  });
}

/** Parses an address and a port as the kernel writes them, such as `0100007F:1E61`. */
function parseEndpoint(
  text: string,
): { readonly address: string; readonly port: number } | undefined {
  const [, hex, port = ""] = /^((?:[0-9A-F]{8}){1,4}):([0-9A-F]{4})$/.exec(text) ?? [];
  return hex === undefined
    ? undefined
    : { address: formatAddress(hex), port: Number.parseInt(port, 16) };
}

/** Formats `0100007F` as `127.0.0.1`. The 32-bit words are in the byte order of this machine. */
function formatAddress(hex: string): string {
  const bytes = Buffer.from(hex, "hex");
  if (endianness() === "LE") bytes.swap32();
  if (bytes.length === 4) return bytes.join(".");
  return (bytes.toString("hex").match(/.{4}/g) ?? []).join(":");
}
