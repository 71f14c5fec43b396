import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import os from "node:os";
import path from "node:path";
import { parseDockerHost } from "../../src/controller/runtime/docker-address.ts";

export interface EngineProxy extends AsyncDisposable {
  readonly host: string;
  /** Ends every connection, and accepts no new ones. */
  cut(): void;
  restore(): void;
  /** Resolves when a request that contains this text has been forwarded. */
  requested(text: string): Promise<void>;
}

/**
 * Starts a socket in front of an engine's socket. A test can cut the connections as if the engine had exited,
 * without effect on other tests.
 */
export async function startEngineProxy(engineHost: string): Promise<EngineProxy> {
  const address = parseDockerHost(engineHost);
  const target =
    address.transport === "unix"
      ? { path: address.socketPath }
      : { host: address.host, port: address.port };
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-proxy-"));
  const sockets = new Set<Socket>();
  let open = true;
  let sent = "";
  let heard: (() => void) | undefined;
  const server: Server = createServer((near) => {
    if (!open) {
      near.destroy();
      return;
    }
    const engine = connect(target);
    near.on("data", (chunk) => {
      sent += chunk.toString("latin1");
      heard?.();
    });
    near.pipe(engine);
    engine.pipe(near);
    for (const [one, other] of [
      [near, engine],
      [engine, near],
    ] as const) {
      sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  const socketPath = path.join(dir, "docker.sock");
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  const cut = () => {
    open = false;
    for (const socket of sockets) socket.destroy();
  };
  return {
    host: `unix://${socketPath}`,
    cut,
    restore: () => {
      open = true;
    },
    requested: (text) =>
      new Promise((resolve) => {
        heard = () => {
          if (sent.includes(text)) resolve();
        };
        heard();
      }),
    [Symbol.asyncDispose]: async () => {
      cut();
      await new Promise((resolve) => server.close(resolve));
      await rm(dir, { recursive: true, force: true });
    },
  };
}
