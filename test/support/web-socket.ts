import { request } from "node:http";
import type { Socket } from "node:net";

/** A WebSocket, after its handshake, to a server that echoes texts. */
export interface EchoSocket {
  /**
   * Sends a text, and waits for its echo. Rejects when the connection ends, or if no echo arrives within two
   * seconds.
   */
  echo(text: string): Promise<void>;
  readonly open: boolean;
  close(): void;
}

export function openWebSocket(port: number, host: string, path = "/"): Promise<EchoSocket> {
  return new Promise((resolve, reject) => {
    const outgoing = request({
      host: "127.0.0.1",
      port,
      path,
      headers: {
        Host: host,
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
      },
    });
    outgoing.once("error", reject);
    outgoing.once("response", (answer) => reject(new Error(`answered ${answer.statusCode}`)));
    outgoing.once("upgrade", (_, socket: Socket) => {
      socket.on("error", () => {});
      resolve({
        echo: (text) => echo(socket, text),
        get open() {
          return !socket.destroyed && socket.readable;
        },
        close: () => socket.destroy(),
      });
    });
    outgoing.end();
  });
}

function echo(socket: Socket, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let got = "";
    const settle = (end: () => void) => {
      socket.off("data", onData);
      socket.off("close", onClose);
      clearTimeout(timer);
      end();
    };
    const onClose = () => settle(() => reject(new Error("the WebSocket was closed")));
    const onData = (chunk: Buffer) => {
      got += chunk.toString();
      if (got === text) settle(resolve);
    };
    const timer = setTimeout(() => settle(() => reject(new Error("no echo"))), 2_000);
    if (socket.destroyed) {
      onClose();
      return;
    }
    socket.on("data", onData);
    socket.once("close", onClose);
    socket.write(text);
  });
}
