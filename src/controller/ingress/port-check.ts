import { createServer } from "node:net";
import { BerthError, getErrorMessage } from "../../base/errors.ts";

/**
 * Throws `port_taken` where one of the ports cannot be listened on. Asked before Caddy is: it shares a
 * port with other Caddys of the same user without a word, and each would get some of the connections.
 */
export async function assertPortsFree(
  ports: readonly number[],
  httpPort: number | undefined,
): Promise<void> {
  for (const port of ports) {
    const flag = port === httpPort ? "--http-port" : "--https-port";
    const code = await tryListen(port);
    if (code === undefined) continue;
    if (code === "EADDRINUSE") throw portTakenError(port, flag);
    if (code === "EACCES")
      throw new BerthError(
        "port_taken",
        `port ${port} is not open to this user: choose another with ${flag}, such as ${port === 443 ? 8443 : 8080}`,
      );
    throw new BerthError("port_taken", `port ${port} cannot be listened on (${code})`, {
      hint: `choose another with ${flag}`,
    });
  }
}

export function portTakenError(port: number, flag: string): BerthError {
  return new BerthError(
    "port_taken",
    `port ${port} is taken by another program: choose another with ${flag}`,
  );
}

/** The code of what went wrong; undefined: the port is free. */
function tryListen(port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error) =>
      resolve(
        "code" in error && typeof error.code === "string" ? error.code : getErrorMessage(error),
      ),
    );
    server.listen(port, () => server.close(() => resolve(undefined)));
  });
}
