import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

/** A start takes a second; on a machine that runs all tests at once, many times that. */
const START_LIMIT_MS = 60_000;

/**
 * What the `berth ready {json}` line of a daemon says. Rejects with its log where it ends before that, or
 * does not come up; `log` gets each line of both streams, also later.
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
      // The daemon's own word of itself; a test that reads a field that is not there fails.
      const said: Ready = JSON.parse(json);
      resolve(said);
    });
  });
}

/** Ends it as `signal` does, and resolves to what it ended with. */
export function endedBy(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  child.kill(signal);
  return ended;
}
