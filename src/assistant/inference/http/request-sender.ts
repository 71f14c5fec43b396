import { readdir, readlink } from "node:fs/promises";
import type { Socket } from "node:net";
import type { Sender } from "../../../base/http/body-budget.ts";
import type { ListenerHost } from "./container-listeners.ts";
import { findPeerSocket } from "./peer-socket.ts";
import { SharedRead } from "./shared-read.ts";

/** Processes with more descriptors are not searched, because that would take seconds. */
const DESCRIPTORS_MAX = 10_000;

const socketHolders = new SharedRead(readSocketHolders);

/**
 * Resolves to the sender of the requests of a connection: the container, or the user and the process. Processes that
 * cannot be found count as one process of their user, and clients of unknown users as one sender. Reads the
 * descriptors of all processes, which can take a tenth of a second.
 */
export async function findSender(socket: Socket, host: ListenerHost | undefined): Promise<Sender> {
  // A container has an address of its own.
  if (host?.isOwn === false) return [`address ${socket.remoteAddress}`];
  const peer = await findPeerSocket(socket);
  if (!peer) return ["unknown"];
  const process = (await socketHolders.get()).get(peer.inode) ?? "unknown";
  return [`user ${peer.uid}`, `process ${process}`];
}

/**
 * Resolves to the process that has each socket open, by the inode of the socket; of several processes, to the one with
 * the lowest id. Lists no sockets of processes that this process may not inspect.
 */
async function readSocketHolders(): Promise<ReadonlyMap<string, number>> {
  const holders = new Map<string, number>();
  const processes = (await readdir("/proc").catch(() => [])).flatMap((name) => Number(name) || []);
  for (const process of processes.toSorted((a, b) => a - b))
    for (const inode of await listSockets(process))
      if (!holders.has(inode)) holders.set(inode, process);
  return holders;
}

async function listSockets(process: number): Promise<string[]> {
  const folder = `/proc/${process}/fd`;
  const names = await readdir(folder).catch(() => []);
  if (names.length > DESCRIPTORS_MAX) return [];
  const links = await Promise.all(
    names.map((name) => readlink(`${folder}/${name}`).catch(() => "")),
  );
  return links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []);
}
