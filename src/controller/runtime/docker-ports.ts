import { readFile } from "node:fs/promises";
import { parseTcpSockets, TCP_STATE } from "../../base/tcp-sockets.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { inspectContainer } from "./docker-containers.ts";

/** Implements `WorkloadRuntime.listeningPorts`. */
export async function listeningPorts(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<readonly number[] | undefined> {
  const tables = await readSocketTables(connection, id, signal);
  return tables === undefined ? undefined : parseListening(tables);
}

/** Implements `WorkloadRuntime.countConnections`. */
export async function countConnections(
  connection: DockerConnection,
  id: string,
  port: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const tables = await readSocketTables(connection, id, signal);
  return tables === undefined ? undefined : countOpen(tables, port);
}

/**
 * Returns the tables of TCP sockets of a container. They are read from the process table of this machine, so only a
 * local engine is supported, and only if the process belongs to the container: an engine in a virtual machine has
 * other process ids.
 */
async function readSocketTables(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<string | undefined> {
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
    return tables.join("\n");
  } catch {
    return undefined;
  }
}

/** The engine's own name server inside every container. */
const ENGINE_NAME_SERVER = "127.0.0.11";

/** Returns the ports in state LISTEN of /proc/net/tcp tables, sorted. */
export function parseListening(tables: string): number[] {
  const ports = new Set<number>();
  for (const { address, port, state } of parseTcpSockets(tables))
    if (state === TCP_STATE.listen && address !== ENGINE_NAME_SERVER) ports.add(port);
  return [...ports].toSorted((a, b) => a - b);
}

/** The states of a connection that counts as open. FIN_WAIT1 means that the end of a response is being sent. */
const openStates: ReadonlySet<string> = new Set([
  TCP_STATE.established,
  TCP_STATE.synReceived,
  TCP_STATE.finWait1,
  TCP_STATE.closeWait,
]);

/** Returns the number of connections to a port in /proc/net/tcp tables. */
export function countOpen(tables: string, port: number): number {
  return parseTcpSockets(tables).filter(
    (socket) => socket.port === port && openStates.has(socket.state),
  ).length;
}
