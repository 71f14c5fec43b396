import { readFileSync } from "node:fs";
import { type Clock, delay } from "../../../base/clock.ts";
import { BerthError } from "../../../base/errors.ts";
import { type AssistantIdentity, readIdentity } from "./control-responses.ts";
import type { ControlTransport } from "./control-transport.ts";

/** It is on this machine and answers from memory; one that takes longer is stopped, or overwhelmed. */
const PROBE_LIMIT_MS = 2_000;
/** How often a process is looked for that is about to end, in milliseconds. */
const EXIT_POLL_MS = 50;
/** The system takes a killed process's memory back before it is gone. */
const KILL_LIMIT_MS = 1_000;

/** Nobody: no daemon has the control socket. Silent: somebody has it, and does not answer as an assistant. */
export type DaemonProbeResult = AssistantIdentity | "nobody" | "silent";

/** Who answers at the control socket now. Rejects with the signal's reason only. */
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
    return isGone ? "nobody" : "silent";
  }
}

/** Whether a process of that id runs, whoever it belongs to. */
export function isProcessRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
  try {
    // It has ended, and nobody has asked how yet: in containers often nobody ever does.
    return !/^.*\) Z /s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

/** SIGTERM, and SIGKILL after `graceMs`; resolves when the process is gone, or was not there. */
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

/** Waits until there is no such process any more; false where there is one after `limitMs`. */
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
    // It has ended already.
  }
}
