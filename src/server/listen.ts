import { type AddressInfo, createServer } from "node:net";
import { BerthError, getErrorCode } from "../base/errors.ts";
import type { Config } from "../config/config.ts";

/**
 * Throws BerthError if the server cannot listen on the configured address. Called before any other change, because a
 * server that cannot start must not have changed anything.
 */
export async function assertListenable(config: Config): Promise<void> {
  const probe = createServer();
  try {
    await listen(
      ({ host, port }) =>
        new Promise<void>((resolve, reject) => {
          probe.once("error", reject).listen({ host, port }, resolve);
        }),
      config,
    );
  } finally {
    probe.close();
  }
}

/** Binds the configured address. Throws BerthError if the system refuses. */
export async function listen(
  bind: (address: { host: string; port: number }) => Promise<unknown>,
  config: Config,
): Promise<void> {
  const { host, port } = config.listen;
  try {
    await bind({ host, port });
  } catch (error) {
    const code = getErrorCode(error) ?? "";
    if (code === "EADDRINUSE") {
      throw new BerthError("conflict", `port ${port} of ${host} is taken by another program`, {
        hint: `choose another address with --listen ${host}:PORT, or --listen ${host}:0 for any port`,
        cause: error,
      });
    }
    if (code === "EACCES" || code === "EADDRNOTAVAIL") {
      throw new BerthError("conflict", `cannot listen on ${host}:${port} (${code})`, {
        hint: "choose another --listen",
        cause: error,
      });
    }
    throw error;
  }
}

/** Returns the URL of the bound address. If the configured port is 0, the system has chosen the port. */
export function boundAddress(
  bound: AddressInfo | string | null,
  config: Config,
  scheme: "http" | "https",
): string {
  const address = typeof bound === "object" && bound !== null ? bound.address : config.listen.host;
  const port = typeof bound === "object" && bound !== null ? bound.port : config.listen.port;
  return `${scheme}://${address.includes(":") ? `[${address}]` : address}:${port}`;
}
