import { readFile } from "node:fs/promises";
import { systemClock } from "../../../base/clock.ts";
import { companionBusNames } from "../../../base/companion-names.ts";
import { isProcessRunning, terminateProcess } from "../../../base/running-process.ts";
import type { CliIo } from "../../io.ts";
import { callSessionBus } from "./call-session-bus.ts";

/** The companion ends within five seconds of SIGTERM, even if a call hangs. */
const GRACE_MS = 10_000;
const KILL_MS = 2_000;

/**
 * Ends the companion on the session bus if its command line is `argv`. On a system without systemd, the bus has started
 * the companion and does not end it. A companion with another command line, such as that of `berth up`, is not touched.
 * Returns true if a companion was ended.
 */
export async function stopCompanion(io: CliIo, argv: readonly string[]): Promise<boolean> {
  const [pid] =
    (await callSessionBus(io, "GetConnectionUnixProcessID", [companionBusNames[0]])) ?? [];
  if (typeof pid !== "number" || !(await hasCommandLine(pid, argv))) return false;
  await terminateProcess(
    pid,
    {
      clock: systemClock,
      graceMs: GRACE_MS,
      killMs: KILL_MS,
      isRunning: () => isStillRunning(pid, argv),
    },
    new AbortController().signal,
  );
  return true;
}

/**
 * Returns true until the process has ended. While a process exits, it has no command line any more, but may still hold its
 * files and connections. A process with another command line has reused the id.
 */
async function isStillRunning(pid: number, argv: readonly string[]): Promise<boolean> {
  const text = await readCommandLine(pid);
  return (text === "" || text === formatCommandLine(argv)) && isProcessRunning(pid);
}

async function hasCommandLine(pid: number, argv: readonly string[]): Promise<boolean> {
  return (await readCommandLine(pid)) === formatCommandLine(argv);
}

const readCommandLine = (pid: number) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");

const formatCommandLine = (argv: readonly string[]) => argv.map((word) => `${word}\0`).join("");
