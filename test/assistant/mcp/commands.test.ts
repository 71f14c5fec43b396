import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import {
  type AppCommand,
  CommandStarter,
} from "../../../src/assistant/agent/mcp/activation/command-starter.ts";
import { StarterChain } from "../../../src/assistant/agent/mcp/activation/starter-chain.ts";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import { type Logger, silentLogger } from "../../../src/base/logger.ts";
import { examplePath } from "../../support/example-app.ts";
import { getToolAppError, McpHarness } from "../../support/mcp-harness.ts";
import { isProcessAlive } from "../../support/processes.ts";

const APP = "org.example.Notes";

let harness: McpHarness;
let starter: CommandStarter;
let pids: number[];
let endings: unknown[];
/** If true, the clock stands still for the starter, so its grace period never ends and it never sends SIGKILL. */
let isFrozen: boolean;

beforeEach(async () => {
  pids = [];
  endings = [];
  isFrozen = false;
  harness = await McpHarness.open({
    limits: { activationTimeoutMs: 5_000 },
    activator: (socketsDir) => {
      const dir = join(socketsDir, "../..");
      starter = new CommandStarter({
        commands: new Map(Object.entries(commands(dir))),
        clock,
        logger,
      });
      return new StarterChain([starter]);
    },
  });
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
  await starter[Symbol.asyncDispose]();
});

const clock: Clock = {
  ...systemClock,
  setTimer: (ms, callback) => (isFrozen ? () => {} : systemClock.setTimer(ms, callback)),
};

const logger: Logger = {
  ...silentLogger,
  info: ({ pid }) => void (typeof pid === "number" && pids.push(pid)),
  warn: (fields) => void endings.push(fields),
};

function commands(dir: string): Record<string, AppCommand> {
  const environment = { XDG_RUNTIME_DIR: dir, XDG_DATA_HOME: join(dir, "data") };
  const sh = (script: string): AppCommand => ({ argv: ["/bin/sh", "-c", script], environment });
  return {
    [APP]: { argv: [process.execPath, examplePath("notes-app/notes.mjs")], environment },
    "org.example.Broken": sh("echo 'it is broken' >&2; exit 3"),
    "org.example.Missing": { argv: ["/nonexistent/program"], environment },
    "org.example.Idle": sh(
      `trap '' TERM; touch ${join(dir, "trapped")}; cat > /dev/null; echo over > ${join(dir, "over")}`,
    ),
    "org.example.Stubborn": sh("trap '' TERM; while :; do sleep 0.2; done"),
  };
}

it("an app with a start command is started on demand, and only once for all callers", async () => {
  const calls = Array.from({ length: 10 }, () => harness.call(APP, "list_notes", {}, true));
  for (const call of calls) expect((await call).structured).toEqual({ notes: [] });
  expect(pids).toHaveLength(1);
});

it("a crashed app is restarted on the next call, and not earlier", async () => {
  await harness.call(APP, "create_note", { title: "a", body: "" }, true);
  const [pid = 0] = pids;
  process.kill(pid, "SIGKILL");
  await expect.poll(() => harness.apps.isConnected(APP)).toBe(false);
  await expect.poll(() => endings).toMatchObject([{ app: APP, signal: "SIGKILL" }]);
  expect(pids).toHaveLength(1);
  // The socket file of the crashed app still exists, without a listener.
  await access(join(harness.socketsDir, `${APP}.sock`));
  expect((await harness.call(APP, "list_notes", {}, true)).structured).toMatchObject({
    notes: [{ title: "a" }],
  });
  expect(pids).toHaveLength(2);
});

it("the starter can start the apps whose commands it has, and no others", async () => {
  const known = { appId: APP, isActivatable: true };
  expect(await harness.apps.isReachable(known)).toBe(true);
  const unknown = { ...known, appId: "org.example.Unknown" };
  expect(await harness.apps.isReachable(unknown)).toBe(false);
});

it("the starter stops its apps when it is disposed, even an app that ignores SIGTERM", async () => {
  await harness.call(APP, "list_notes", {}, true);
  const stubborn = getToolAppError(harness.call("org.example.Stubborn", "x", {}, true));
  await expect.poll(() => pids.length).toBe(2);
  await harness.apps[Symbol.asyncDispose]();
  expect((await stubborn).code).toBe("transport_closed");
  await starter[Symbol.asyncDispose]();
  expect(pids.filter(isProcessAlive)).toEqual([]);
});

it("an app that exits before it listens is reported as app_unavailable, with its last output in the log", async () => {
  const failure = await getToolAppError(harness.call("org.example.Broken", "x", {}, true));
  expect(failure.code).toBe("app_unavailable");
  expect(failure.message).toContain("ended before it listened");
  await expect.poll(() => endings).toMatchObject([{ code: 3, stderr: "it is broken" }]);
});

it("an app that cannot be started is reported as app_unavailable, without the program's path", async () => {
  const failure = await getToolAppError(harness.call("org.example.Missing", "x", {}, true));
  expect(failure.code).toBe("app_unavailable");
  expect(failure.message).not.toContain("nonexistent");
});

it("an app can exit by itself when it is stopped, because its standard input is closed before it gets a signal", async () => {
  const waiting = getToolAppError(harness.call("org.example.Idle", "x", {}, true));
  await expect.poll(() => pids.length).toBe(1);
  await expect.poll(() => access(join(harness.dir, "trapped"))).toBeUndefined();
  isFrozen = true;
  const over = join(harness.dir, "over");
  await starter[Symbol.asyncDispose]();
  expect((await waiting).code).toBe("app_unavailable");
  await expect.poll(() => readFile(over, "utf8")).toBe("over\n");
});

it("an app is not started if its manifest does not allow Berth to start it", async () => {
  const failure = await getToolAppError(harness.call(APP, "list_notes", {}, false));
  expect(failure.code).toBe("app_unavailable");
  expect(pids).toEqual([]);
});

it("an app without a start command is reported as app_unavailable", async () => {
  const failure = await getToolAppError(harness.call("org.example.Unknown", "x", {}, true));
  expect(failure.code).toBe("app_unavailable");
  expect(failure.message).toContain("knows how to start it");
});
