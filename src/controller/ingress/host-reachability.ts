import { readFile } from "node:fs/promises";
import type { Store } from "../../store/store.ts";
import { networkName } from "../engine-names.ts";
import { INSTANCE } from "../labels.ts";
import type { ContainerRuntime } from "../runtime/port.ts";
import type { Ingress } from "./port.ts";

const REACHABILITY_SETTING = "ingress.reach";

/**
 * Whether a process of this machine reaches containers by their addresses: it does where the instance's
 * network is one of the machine's own. It is not with an engine on another machine, in a virtual one,
 * or of a user without root. Where the engine is away, what was found out before counts.
 */
export async function findHostReachability(options: {
  readonly runtime: Pick<ContainerRuntime, "ensureNetwork" | "networkSubnets" | "removeNetwork">;
  readonly store: Pick<Store, "instanceId" | "settings" | "list">;
  readonly dockerHost: string;
  readonly signal: AbortSignal;
  /** The kernel's table of routes, as in /proc/net/route. */
  readonly routes?: () => Promise<string>;
}): Promise<Ingress["reachability"]> {
  const { runtime, store, dockerHost, signal } = options;
  const network = networkName(store.instanceId);
  try {
    await runtime.ensureNetwork(network, { [INSTANCE]: store.instanceId }, signal);
    const subnets = await runtime.networkSubnets(network, signal);
    const isLocal = dockerHost.startsWith("unix:");
    const table = isLocal ? await (options.routes ?? readRoutes)() : "";
    const reach = subnets.some((subnet) => isLocalSubnet(subnet, table)) ? "address" : "published";
    // Without an App nothing of Berth's is to be found on the engine; it was made only to be looked at.
    if (store.list("App").length === 0) await runtime.removeNetwork(network, signal);
    store.settings.set(REACHABILITY_SETTING, `${reach} ${dockerHost}`);
    return reach;
  } catch (error) {
    if (signal.aborted) throw error;
    return store.settings.get(REACHABILITY_SETTING) === `address ${dockerHost}`
      ? "address"
      : "published";
  }
}

async function readRoutes(): Promise<string> {
  // Not os.networkInterfaces(): a bridge without a running container is down, and left out there.
  return readFile("/proc/net/route", "utf8").catch(() => "");
}

/** True where the kernel sends to the network without a gateway: numbers stand there as in memory. */
export function isLocalSubnet(subnet: string, table: string): boolean {
  const [address = "", bits = ""] = subnet.split("/");
  const parts = address.split(".").map(Number);
  if (parts.length !== 4 || !/^\d+$/.test(bits)) return false;
  const mask = Array.from({ length: 4 }, (_, index) => {
    const ones = Math.min(8, Math.max(0, Number(bits) - index * 8));
    return 256 - 2 ** (8 - ones);
  });
  return table.split("\n").some((line) => {
    const [, destination, gateway, , , , , netmask] = line.split(/\s+/);
    return (
      destination === toKernelHex(parts) && gateway === "00000000" && netmask === toKernelHex(mask)
    );
  });
}

/** Little-endian, as on every machine that Node's builds of today run on. */
function toKernelHex(parts: readonly number[]): string {
  return parts
    .toReversed()
    .map((part) => part.toString(16).padStart(2, "0"))
    .join("")
    .toUpperCase();
}
