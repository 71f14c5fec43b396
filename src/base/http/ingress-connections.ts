import { chmod, rm } from "node:fs/promises";
import type { Server } from "node:http";
import { createServer, type Socket } from "node:net";

/**
 * The `remoteAddress` of a connection from the ingress. It is a fixed text, because connections over a Unix socket have
 * no address.
 */
export const INGRESS_ADDRESS = "ingress";

/**
 * Makes an HTTP server accept the ingress's connections on a Unix socket, too. Only this user can reach the socket,
 * so no other process can claim to forward a client's request. Returns a function that makes the server stop
 * accepting such connections; open connections are not closed.
 */
export async function acceptIngressConnections(server: Server, path: string): Promise<() => void> {
  const listener = createServer({ allowHalfOpen: true }, (socket) => {
    Object.defineProperty(socket, "remoteAddress", { value: INGRESS_ADDRESS });
    server.emit("connection", socket);
  });
  // The socket of a killed server may still exist, and is removed. It belongs to no running server, because the lock of
  // the data directory prevents a second one.
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    listener.once("error", reject).listen(path, resolve);
  });
  await chmod(path, 0o600);
  return () => void listener.close();
}

export function isIngressConnection({ remoteAddress }: Pick<Socket, "remoteAddress">): boolean {
  return remoteAddress === INGRESS_ADDRESS;
}
