import { isIP } from "node:net";
import type { AppSpec } from "./app-spec.ts";

/** A TCP port of the machine on which Berth itself listens, so that no App may publish it. */
export interface ReservedPort {
  readonly port: number;
  /** The IP address or the host name on which Berth listens; undefined: every address. */
  readonly address: string | undefined;
  /** The part of Berth that listens, and its setting, for messages. */
  readonly owner: string;
}

/** Returns the reserved port that a container with this published port would occupy; undefined if there is none. */
export function findReservedPort(
  { host, protocol = "tcp", address }: NonNullable<AppSpec["ports"]>[number],
  reserved: readonly ReservedPort[],
): ReservedPort | undefined {
  if (protocol !== "tcp") return undefined;
  return reserved.find((one) => one.port === host && mayOverlap(address, one.address));
}

/** Returns false for two different addresses of the machine. A host name may stand for any address. */
function mayOverlap(a: string | undefined, b: string | undefined): boolean {
  return a === b || !isSingleAddress(a) || !isSingleAddress(b);
}

function isSingleAddress(address: string | undefined): boolean {
  return address !== undefined && isIP(address) !== 0 && !["0.0.0.0", "::"].includes(address);
}
