import { readFile } from "node:fs/promises";
import type { DockerConnection } from "./docker-connection.ts";
import { inspectContainer } from "./docker-containers.ts";

/**
 * See ContainerRuntime.listeningPorts. Read from the process table of this machine, so only for an
 * engine whose socket is here, and only when the process is indeed of that container: an engine in a
 * virtual machine counts its processes for itself.
 */
export async function listeningPorts(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<readonly number[] | undefined> {
  if (!connection.address.local || process.platform !== "linux") return undefined;
  const inspected = await inspectContainer(connection, id, signal);
  const pid = inspected?.State.Pid;
  if (!inspected || !pid) return undefined;
  try {
    const cgroup = await readFile(`/proc/${pid}/cgroup`, "latin1");
    if (!cgroup.includes(inspected.Id)) return undefined;
    const tables = await Promise.all([
      readFile(`/proc/${pid}/net/tcp`, "latin1"),
      readFile(`/proc/${pid}/net/tcp6`, "latin1").catch(() => ""),
    ]);
    return parseListening(tables.join("\n"));
  } catch {
    return undefined;
  }
}

const LISTEN = "0A";
/** 127.0.0.11 as the kernel prints it: the engine's own name server inside every container. */
const ENGINE_NAME_SERVER = "0B00007F";

/** Ports in state LISTEN of /proc/net/tcp tables, in order. */
export function parseListening(tables: string): number[] {
  const ports = new Set<number>();
  for (const line of tables.split("\n")) {
    const match = /^\s*\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) /.exec(
      line,
    );
    if (!match || match[3] !== LISTEN || match[1] === ENGINE_NAME_SERVER) continue;
    ports.add(Number.parseInt(match[2] ?? "", 16));
  }
  return [...ports].toSorted((a, b) => a - b);
}
