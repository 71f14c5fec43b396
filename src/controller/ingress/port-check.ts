import { createServer } from "node:net";
import { BerthError, getErrorMessage } from "../../base/errors.ts";

/**
 * Throws `port_taken` if one of the ports is not available. It is called before Caddy starts, because Caddy silently
 * shares its ports with other Caddy processes of the same user, and each of them would get some of the connections.
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
        `port ${port} may not be opened by this user: choose another with ${flag}, such as ${port === 443 ? 8443 : 8080}`,
      );
    throw new BerthError("port_taken", `cannot listen on port ${port} (${code})`, {
      hint: `choose another port with ${flag}`,
    });
  }
}

export function portTakenError(port: number, flag: string): BerthError {
  return new BerthError(
    "port_taken",
    `port ${port} is used by another program: choose another port with ${flag}`,
  );
}

/** Tries to listen on a port. Returns the error code; undefined if the port is available. */
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
