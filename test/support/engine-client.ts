import Docker from "dockerode";
import { parseDockerHost } from "../../src/controller/runtime/docker-address.ts";

/** On everything that a test makes by hand; what Berth makes carries its own instance label. */
export const TEST_LABEL = "dev.berth.test";

export function connectTo(host: string): Docker {
  const address = parseDockerHost(host);
  return address.transport === "unix"
    ? new Docker({ socketPath: address.socketPath })
    : new Docker({ host: address.host, port: address.port, protocol: address.transport });
}
