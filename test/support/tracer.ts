import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { readFile } from "node:fs/promises";

export interface Tracer {
  /** What it saw, one line for each call, with the thread before it where it follows them. */
  log(): Promise<string>;
  /** Lets the process go on as if nothing had been; also where that has ended. */
  detach(): Promise<void>;
}

/**
 * Attaches strace to a process, and resolves when it has all of its threads, or, where `args` do not have
 * `-f`, that one thread. `log` is the file that it writes what it sees to.
 */
export async function trace(pid: number, log: string, args: readonly string[]): Promise<Tracer> {
  rmSync(log, { force: true });
  const words = ["-p", String(pid), "-o", log, ...args];
  const strace = spawn("strace", words, { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => strace.once("exit", resolve));
  let said = "";
  await new Promise<void>((resolve, reject) => {
    strace.once("error", (error) =>
      reject(new Error(`these tests need strace (apt-get install strace): ${error.message}`)),
    );
    strace.once("exit", (code) =>
      reject(new Error(`strace ended with ${code}; it has to be allowed to trace: ${said}`)),
    );
    strace.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      // Attaching goes thread by thread, and says so when it has them all.
      if (/attached( with \d+ threads)?\n/.test(said)) resolve();
    });
  });
  return {
    log: () => readFile(log, "utf8"),
    detach: async () => {
      if (strace.exitCode === null && strace.signalCode === null) strace.kill("SIGINT");
      await ended;
    },
  };
}
