import { BerthError } from "../../../base/errors.ts";
import { type AssistantIdentity, readIdentity } from "./control-responses.ts";
import type { ControlTransport } from "./control-transport.ts";

/**
 * The time limit for an answer. The daemon is on this machine and answers from memory, so a daemon that takes longer is
 * stopped or overloaded.
 */
const PROBE_LIMIT_MS = 2_000;

/**
 * `none` means that no process listens on the control socket, `silent` that a process listens, but does not answer as
 * an assistant.
 */
export type DaemonProbeResult = AssistantIdentity | "none" | "silent";

/** Finds out which assistant answers on the control socket now, if any. Rejects with the signal's reason only. */
export async function probeDaemon(
  calls: ControlTransport,
  signal: AbortSignal,
): Promise<DaemonProbeResult> {
  try {
    return readIdentity(
      await calls.call({ method: "GET", path: "/state", limitMs: PROBE_LIMIT_MS }, signal),
    );
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const isGone = error instanceof BerthError && error.code === "assistant_unreachable";
    return isGone ? "none" : "silent";
  }
}
