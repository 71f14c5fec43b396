import { readFileSync } from "node:fs";
import { type Clock, delay } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import { type AssistantIdentity, readIdentity } from "./control-responses.ts";
import type { ControlTransport } from "./control-transport.ts";

/** The daemon is on this machine and answers from memory; if it takes longer, it is stopped or overloaded. */
const PROBE_LIMIT_MS = 2_000;
/** The interval of checks for a process that is about to end, in milliseconds. */
const EXIT_POLL_MS = 50;
/** The system frees the memory of a killed process before the process disappears. */
const KILL_LIMIT_MS = 1_000;

/** none: no process listens on the control socket. silent: one does, but does not answer as an assistant. */
export type DaemonProbeResult = AssistantIdentity | "none" | "silent";

/** Asks which assistant answers on the control socket now. Rejects with the signal's reason only. */
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

/** True if a process with this id runs, of any user. */
export function isProcessRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
  try {
    // A process that has ended but was not reaped is a zombie, which some containers never remove.
    return !/^.*\) Z /s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

/** Sends SIGTERM, and SIGKILL after `graceMs`. Resolves when the process is gone, also if it never existed. */
export async function terminateProcess(
  pid: number,
  options: { readonly clock: Clock; readonly graceMs: number },
  signal: AbortSignal,
): Promise<void> {
  sendSignal(pid, "SIGTERM");
  if (await waitUntilGone(pid, options.graceMs, options.clock, signal)) return;
  sendSignal(pid, "SIGKILL");
  await waitUntilGone(pid, KILL_LIMIT_MS, options.clock, signal);
}

/** Waits until no process with this id exists; false if one still does after `limitMs`. */
export async function waitUntilGone(
  pid: number,
  limitMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const deadline = clock.now() + limitMs;
  while (isProcessRunning(pid)) {
    if (clock.now() >= deadline) return false;
    await delay(clock, EXIT_POLL_MS, signal);
  }
  return true;
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has ended already.
  }
}
