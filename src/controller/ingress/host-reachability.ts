import { readFile } from "node:fs/promises";
import type { Store } from "../../store/store.ts";
import type { EngineHost } from "../engine-host.ts";
import { networkName } from "../engine-names.ts";
import { INSTANCE } from "../labels.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";
import type { Ingress } from "./port.ts";

const REACHABILITY_SETTING = "ingress.reach";

/**
 * Finds out if processes of this machine reach containers at the containers' addresses. They do if the instance's
 * network is one of this machine's networks. They do not if the engine runs on another machine, in a virtual machine or
 * without root. While the engine is unreachable, the last stored result is returned.
 */
export async function findHostReachability(options: {
  readonly runtime: Pick<WorkloadRuntime, "ensureNetwork" | "removeNetwork"> &
    Pick<EngineHost, "networkSubnets" | "location">;
  readonly store: Pick<Store, "instanceId" | "settings" | "list">;
  /** Identifies the engine. A stored result is used only for the same engine. */
  readonly dockerHost: string;
  readonly signal: AbortSignal;
  /** Reads the kernel's routing table in the format of /proc/net/route. */
  readonly routes?: () => Promise<string>;
}): Promise<Ingress["reachability"]> {
  const { runtime, store, dockerHost, signal } = options;
  const network = networkName(store.instanceId);
  try {
    await runtime.ensureNetwork(network, { [INSTANCE]: store.instanceId }, signal);
    const subnets = await runtime.networkSubnets(network, signal);
    const table = runtime.location === "this-machine" ? await (options.routes ?? readRoutes)() : "";
    const reach = subnets.some((subnet) => isLocalSubnet(subnet, table)) ? "address" : "published";
    // If there is no App, the network was created only for this check and is removed, so that nothing of Berth
    // remains on the engine.
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
  // The routing table is read, because os.networkInterfaces() omits a bridge without a running container, which is
  // down.
  return readFile("/proc/net/route", "utf8").catch(() => "");
}

/** True if the routing table has a route without a gateway for the network. */
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

/**
 * Formats an address as in the kernel's routing table: in the byte order of the machine, which is little-endian on
 * x86-64 and ARM64.
 */
function toKernelHex(parts: readonly number[]): string {
  return parts
    .toReversed()
    .map((part) => part.toString(16).padStart(2, "0"))
    .join("")
    .toUpperCase();
}
