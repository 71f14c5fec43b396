import { readFileSync } from "node:fs";
import { type Clock, delay } from "./clock.ts";
import { getErrorCode } from "./errors.ts";

/** The interval of checks for a process that is about to end, in milliseconds. */
const EXIT_POLL_MS = 50;

/** Returns true if a process with this id is running, even if it belongs to another user. */
export function isProcessRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM means that the process exists, although it belongs to another user.
    return getErrorCode(error) === "EPERM";
  }
  try {
    // A process that has ended but was not reaped is a zombie and does not count as running. In containers without an
    // init process, zombies stay.
    return !/^.*\) Z /s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

/**
 * Sends SIGTERM, and SIGKILL after `graceMs`. Resolves when the process has ended, or at once if it never existed,
 * and at the latest `killMs` after SIGKILL. Rejects only with the reason of `signal`, when `signal` aborts.
 */
export async function terminateProcess(
  pid: number,
  options: {
    readonly clock: Clock;
    readonly graceMs: number;
    readonly killMs: number;
    /**
     * Returns true while the process runs. The default is true while any process has the id `pid`, even if a new
     * process has reused the id.
     */
    readonly isRunning?: () => boolean | Promise<boolean>;
  },
  signal: AbortSignal,
): Promise<void> {
  const { clock, graceMs, killMs, isRunning = () => isProcessRunning(pid) } = options;
  for (const [name, limitMs] of [
    ["SIGTERM", graceMs],
    ["SIGKILL", killMs],
  ] as const) {
    try {
      process.kill(pid, name);
    } catch {
      // The process has already ended, so it cannot receive the signal.
    }
    if (await waitUntilGone(isRunning, limitMs, clock, signal)) return;
  }
}

/** Waits until a process has ended; resolves to false if it has not after `limitMs`. */
export async function waitUntilGone(
  isRunning: () => boolean | Promise<boolean>,
  limitMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const deadline = clock.now() + limitMs;
  while (await isRunning()) {
    if (clock.now() >= deadline) return false;
    await delay(clock, EXIT_POLL_MS, signal);
  }
  return true;
}
