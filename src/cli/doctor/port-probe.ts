import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createServer } from "node:net";
import { parseTcpSockets, TCP_STATE } from "../../base/tcp-sockets.ts";

/**
 * Listens on the port for a moment. Without a host, listens on all addresses. Rejects with the error of the system if
 * listening is not possible.
 */
export function tryToListen(host: string | undefined, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ ...(host === undefined ? {} : { host }), port, exclusive: true }, () =>
      server.close(() => resolve()),
    );
  });
}

/**
 * Finds the process that listens on a port, such as "nginx (process 123)". Works only on Linux, and only if this user
 * may read the files of that process in /proc.
 */
export function findPortHolder(port: number): string | undefined {
  try {
    const inodes = ["/proc/net/tcp", "/proc/net/tcp6"]
      .flatMap((file) => parseTcpSockets(readFileSync(file, "utf8")))
      .filter((socket) => socket.port === port && socket.state === TCP_STATE.listen)
      .map(({ inode }) => `socket:[${inode}]`);
    for (const pid of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry)))
      if (openFiles(pid).some((link) => inodes.includes(link)))
        return `${readFileSync(`/proc/${pid}/comm`, "utf8").trim()} (process ${pid})`;
  } catch {
    // If /proc cannot be read, the process that listens on the port stays unknown.
  }
  return undefined;
}

function openFiles(pid: string): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${fd}`);
      } catch {
        return "";
      }
    });
  } catch {
    return [];
  }
}
