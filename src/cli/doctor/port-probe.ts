import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createServer } from "node:net";

/** Rejects with the error of the system where the port cannot be had; without a host, on all addresses. */
export function tryToListen(host: string | undefined, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ ...(host === undefined ? {} : { host }), port, exclusive: true }, () =>
      server.close(() => resolve()),
    );
  });
}

/** "nginx (process 123)", as far as /proc tells this user; Linux only. */
export function findPortHolder(port: number): string | undefined {
  try {
    const wanted = port.toString(16).toUpperCase().padStart(4, "0");
    const inodes = ["/proc/net/tcp", "/proc/net/tcp6"]
      .flatMap((file) => readFileSync(file, "utf8").split("\n").slice(1))
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[1]?.endsWith(`:${wanted}`) && fields[3] === "0A")
      .map((fields) => `socket:[${fields[9]}]`);
    for (const pid of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry)))
      if (openFiles(pid).some((link) => inodes.includes(link)))
        return `${readFileSync(`/proc/${pid}/comm`, "utf8").trim()} (process ${pid})`;
  } catch {
    // No /proc, or one that is closed: the port is taken all the same.
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
