import { once } from "node:events";
import { createServer } from "node:net";

/** Returns different ports on which no program listens at the moment. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports: number[] = [];
  for (const server of servers) {
    server.listen(0);
    await once(server, "listening");
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    ports.push(address.port);
  }
  for (const server of servers) {
    server.close();
    await once(server, "close");
  }
  return ports;
}
