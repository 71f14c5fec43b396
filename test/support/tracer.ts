import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { readFile } from "node:fs/promises";

export interface Tracer {
  /**
   * Returns strace's log. It has one line per system call, which begins with the thread id if strace follows
   * threads.
   */
  log(): Promise<string>;
  /** Detaches strace from the process, which continues to run. May be called after the process has ended. */
  detach(): Promise<void>;
}

/**
 * Attaches strace to a process. Resolves when strace is attached to the process's main thread or, if `args`
 * contain `-f`, to all of its threads. strace writes the system calls to the file `log`.
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
      // strace attaches to one thread after another, and prints this line when it is attached to all of them.
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
