import Docker from "dockerode";
import { parseDockerHost } from "../../src/controller/runtime/docker-address.ts";

/** The label of all objects that a test creates itself. Objects that Berth creates have an instance label instead. */
export const TEST_LABEL = "dev.berth.test";

export function connectTo(host: string): Docker {
  const address = parseDockerHost(host);
  return address.transport === "unix"
    ? new Docker({ socketPath: address.socketPath })
    : new Docker({ host: address.host, port: address.port, protocol: address.transport });
}
