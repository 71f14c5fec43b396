import { afterEach } from "vitest";
import type { FakeCompanion } from "./fake-companion.ts";
import { type CliOptions, runCommandLine } from "./run-cli.ts";
import { Terminal } from "./terminal.ts";

/**
 * The options with which a command line runs in a desktop session with a session bus. Virtual clocks start at `nowMs`.
 */
export const companionSession = {
  environment: { DBUS_SESSION_BUS_ADDRESS: "unix:path=/fake", NO_COLOR: "1" },
  nowMs: Date.parse("2030-01-01T00:00:00.000Z"),
} as const;

/**
 * Runs command lines against the current test's fake companion, which `bus` returns. A test fails if a command
 * leaves a bus connection open.
 */
export function companionCli(bus: () => FakeCompanion) {
  afterEach(() => {
    if (bus().openConnections > 0) throw new Error("a connection was left behind");
  });
  const options = () => ({ ...companionSession, openSessionBus: bus().open });
  return {
    run: (words: readonly string[], more: CliOptions = {}) =>
      runCommandLine(words, { ...options(), ...more }),
    terminal: (...words: string[]) => new Terminal(words, options()),
  };
}
