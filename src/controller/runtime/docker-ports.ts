import { readFile } from "node:fs/promises";
import type { DockerConnection } from "./docker-connection.ts";
import { inspectContainer } from "./docker-containers.ts";

/**
 * See WorkloadRuntime.listeningPorts. Reads the process table of this machine, so that it supports only a local
 * engine, and only if the process belongs to the container: an engine in a virtual machine has other process ids.
 */
export async function listeningPorts(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<readonly number[] | undefined> {
  if (connection.address.location !== "this-machine" || process.platform !== "linux")
    return undefined;
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
/** 127.0.0.11 in the kernel's format: the engine's own name server inside every container. */
const ENGINE_NAME_SERVER = "0B00007F";

/** Returns the ports in state LISTEN of /proc/net/tcp tables, sorted. */
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
