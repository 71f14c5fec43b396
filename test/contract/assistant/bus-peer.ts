import type { BusValue } from "../../../src/dbus/port.ts";
import type { BusAnswer } from "../../support/fake-companion.ts";

export interface PeerSignal {
  readonly member: string;
  readonly args: readonly BusValue[];
}

/** An interface of the companion, which the test calls directly instead of over a bus. */
export interface BusPeer extends AsyncDisposable {
  readonly methods: Readonly<Record<string, BusAnswer>>;
  /** The signals that the interface has emitted, in order. */
  readonly signals: readonly PeerSignal[];
}

/** Calls a method of the peer. Rejects with BusCallError. */
export async function callPeer(
  peer: BusPeer,
  member: string,
  ...args: readonly BusValue[]
): Promise<readonly BusValue[]> {
  const method = peer.methods[member];
  if (!method) throw new Error(`the peer has no method ${member}`);
  return method(...args);
}

/** Parses one argument of a method or signal that contains JSON text. */
export function parsePeerJson(value: BusValue | undefined): unknown {
  if (typeof value !== "string") throw new TypeError("there is no text in this place");
  return JSON.parse(value);
}

/** Returns a matcher for errors with this D-Bus name. */
export const busError = (busName: string) => ({ busName });
export const NOT_FOUND = busError("dev.assistant.Error.NotFound");
