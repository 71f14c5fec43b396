import { fileURLToPath } from "node:url";
import type { TestSessionBus } from "./test-session-bus.ts";

const script = fileURLToPath(new URL("./bus-client.py", import.meta.url));

/**
 * Runs bus-client.py, a GLib D-Bus client that needs Debian's python3-gi. Returns the last line of its output, parsed
 * as JSON.
 */
export async function runGiClient(
  bus: TestSessionBus,
  ...args: readonly string[]
): Promise<unknown> {
  const run = await bus.run("/usr/bin/python3", [script, ...args]);
  const line = run.stdout.trim().split("\n").at(-1) ?? "";
  if (run.code !== 0 || line === "") throw new Error(`bus-client.py failed: ${run.stderr}`);
  return JSON.parse(line);
}
