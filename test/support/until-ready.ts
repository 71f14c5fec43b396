import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

/**
 * The time limit of a start, which takes about a second, but many times that on a machine that runs all tests
 * concurrently.
 */
const START_LIMIT_MS = 60_000;

/**
 * Resolves with the JSON of the daemon's `berth ready {json}` line. Rejects with the log if the daemon ends before
 * that or is not ready in time. All lines of both output streams are appended to `log`, including later ones.
 */
export function untilReady<Ready>(child: ChildProcess, log: string[]): Promise<Ready> {
  const { stdout, stderr } = child;
  if (!stdout || !stderr) throw new Error("its output is not read");
  createInterface(stderr).on("line", (line) => log.push(line));
  return new Promise<Ready>((resolve, reject) => {
    const fail = (what: string) => reject(new Error(`the daemon ${what}:\n${log.join("\n")}`));
    const limit = setTimeout(() => fail("did not come up"), START_LIMIT_MS);
    child.once("close", (code) => {
      clearTimeout(limit);
      fail(`ended with ${code}`);
    });
    createInterface(stdout).on("line", (line) => {
      log.push(line);
      const json = /^berth ready (?<json>\{.*\})$/.exec(line)?.groups?.["json"];
      if (json === undefined) return;
      clearTimeout(limit);
      // The JSON is not validated; a test that reads a missing field fails.
      const said: Ready = JSON.parse(json);
      resolve(said);
    });
  });
}

/** Sends a signal to the process. Resolves to its exit code, or null if the signal ended it. */
export function endedBy(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  child.kill(signal);
  return ended;
}
