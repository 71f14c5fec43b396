import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { silentLogger } from "../../../../../src/base/logger.ts";
import {
  buildAssistantCommand,
  computeStartedBy,
} from "../../../../../src/controller/models/assistant/assistant-command.ts";
import {
  type AssistantEvent,
  AssistantSupervisor,
  type AssistantSupervisorOptions,
} from "../../../../../src/controller/models/assistant/assistant-supervisor.ts";
import { ControlTransport } from "../../../../../src/controller/models/assistant/control-transport.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";
import { WAIT_OPTIONS } from "../../../../support/wait-limits.ts";

const SCRIPT = join(import.meta.dirname, "../../../../support/scripted-assistant.mjs");

let dataDir: string;
let clock: VirtualClock;
let calls: ControlTransport;
let events: AssistantEvent[];
const supervisors: AssistantSupervisor[] = [];
const others: ChildProcess[] = [];
beforeEach(() => {
  dataDir = temporaryFolder("supervisor");
  clock = new VirtualClock();
  calls = new ControlTransport({ dataDir });
  events = [];
});
afterEach(async () => {
  mode("");
  for (const supervisor of supervisors.splice(0)) {
    const { pid } = supervisor.report();
    const disposed = supervisor[Symbol.asyncDispose]();
    if (pid !== null && isThere(pid)) process.kill(pid, "SIGKILL");
    await disposed;
  }
  for (const child of others.splice(0)) child.kill("SIGKILL");
  calls[Symbol.dispose]();
});

function options(more: Partial<AssistantSupervisorOptions> = {}): AssistantSupervisorOptions {
  return {
    program: [process.execPath, SCRIPT],
    settings: { port: 7777, dataDir, memoryBytesMax: undefined },
    owner: "instance",
    environment: { PATH: process.env["PATH"] },
    version: "1.0.0",
    logFormat: "json",
    logLevel: "info",
    transport: calls,
    clock,
    logger: silentLogger,
    onChange: (_report, event) => {
      if (event) events.push(event);
    },
    ...more,
  };
}

function supervise(more: Partial<AssistantSupervisorOptions> = {}): AssistantSupervisor {
  const supervisor = new AssistantSupervisor(options(more));
  supervisors.push(supervisor);
  supervisor.start();
  return supervisor;
}

function mode(name: string): void {
  writeFileSync(join(dataDir, "mode"), name);
}

/** Starts a daemon that is not the supervisor's child. Resolves to its process id when the daemon listens. */
async function daemon(command: readonly string[]): Promise<number> {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { stdio: "inherit" });
  others.push(child);
  const { pid } = child;
  if (pid === undefined) throw new Error("it was not started");
  await vi.waitFor(() => connected(join(dataDir, "run/control.sock")), WAIT_OPTIONS);
  return pid;
}

/** Resolves when the socket accepts a connection, because the socket file exists earlier than that. */
async function connected(path: string): Promise<void> {
  const socket = connect(path);
  try {
    await once(socket, "connect");
  } finally {
    socket.destroy();
  }
}

const byPerson = () => [process.execPath, SCRIPT, "--data-dir", dataDir, "--port", "1"];
const bySupervisor = (more: Partial<AssistantSupervisorOptions> = {}) =>
  buildAssistantCommand(options(more), computeStartedBy(options(more)));

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const state = (supervisor: AssistantSupervisor, name: string) =>
  vi.waitFor(() => expect(supervisor.report().state).toBe(name), WAIT_OPTIONS);
const reasons = () => events.map(({ reason }) => reason);

describe("an assistant that the supervisor starts", () => {
  test("is started with its settings, reported, and stopped", async () => {
    const environment = { PATH: process.env["PATH"], BERTH_ASSISTANT_THREADS: "1" };
    const settings = { port: 4711, dataDir, memoryBytesMax: 5_000 };
    const supervisor = supervise({ environment, settings, logLevel: "warn" });
    await state(supervisor, "up");
    const { pid, ...report } = supervisor.report();
    expect(report).toEqual({
      state: "up",
      url: "http://127.0.0.1:4711",
      starts: 1,
      message: null,
    });
    expect(isThere(pid ?? 0)).toBe(true);
    expect(JSON.parse(readFileSync(join(dataDir, "arguments"), "utf8")).given).toEqual([
      "assistant",
      "--system",
      `--data-dir=${dataDir}`,
      "--port=4711",
      "--memory=5000",
      "--log-format=json",
      "--log-level=warn",
      "--started-by",
      expect.stringMatching(/^instance\/[0-9a-f]{16}$/),
    ]);
    expect(events).toEqual([
      {
        type: "Normal",
        reason: "AssistantUp",
        message: "the assistant answers on http://127.0.0.1:4711",
      },
    ]);
    await supervisor[Symbol.asyncDispose]();
    expect(isThere(pid ?? 0)).toBe(false);
    expect(existsSync(join(dataDir, "ended well"))).toBe(true);
  });

  test("is killed when it has not exited after four seconds", async () => {
    mode("stubborn");
    const supervisor = supervise();
    await state(supervisor, "up");
    const pid = supervisor.report().pid ?? 0;
    const disposed = supervisor[Symbol.asyncDispose]();
    await clock.advance(3_999);
    expect(isThere(pid)).toBe(true);
    await clock.advance(1);
    await disposed;
    expect(isThere(pid)).toBe(false);
  });

  test("is restarted after 1, 2 and 4 seconds when it fails, with the reason in the report, until it is up", async () => {
    mode("port taken");
    const supervisor = supervise();
    for (const [index, waitMs] of [1_000, 2_000, 4_000].entries()) {
      await state(supervisor, "waiting");
      expect(supervisor.report()).toMatchObject({ starts: index + 1, url: null, pid: null });
      expect(supervisor.report().message).toBe(
        `port 1 of 127.0.0.1 is taken by another program; choose another port with --assistant-port; the next start is in ${waitMs / 1000} s`,
      );
      if (waitMs === 4_000) mode("");
      await clock.advance(waitMs - 1);
      expect(supervisor.report().state).toBe("waiting");
      await clock.advance(1);
      await vi.waitFor(() => expect(supervisor.report().starts).toBe(index + 2), WAIT_OPTIONS);
    }
    await state(supervisor, "up");
    expect(new Set(events.map(({ message }) => message)).size).toBe(2);
    expect(reasons()).toEqual([
      "AssistantEnded",
      "AssistantEnded",
      "AssistantEnded",
      "AssistantUp",
    ]);
  });

  test("is restarted after a minute at most; after a minute of uptime the back-off is reset", async () => {
    mode("exit 3");
    const supervisor = supervise();
    for (const waitMs of [1, 2, 4, 8, 16, 32, 60, 60].map((seconds) => seconds * 1000)) {
      await state(supervisor, "waiting");
      expect(supervisor.report().message).toBe(
        `the process ended with exit code 3; its log says why; the next start is in ${waitMs / 1000} s`,
      );
      if (supervisor.report().starts === 8) mode("");
      const { starts } = supervisor.report();
      await clock.advance(waitMs);
      await vi.waitFor(() => expect(supervisor.report().starts).toBe(starts + 1), WAIT_OPTIONS);
    }
    const kill = async () => {
      await state(supervisor, "up");
      return supervisor.report().pid ?? 0;
    };
    const short = await kill();
    await clock.advance(59_999);
    process.kill(short, "SIGKILL");
    await state(supervisor, "waiting");
    expect(supervisor.report().message).toBe(
      "the process was ended by SIGKILL; the next start is in 60 s",
    );
    await clock.advance(60_000);
    const long = await kill();
    await clock.advance(60_000);
    process.kill(long, "SIGKILL");
    await state(supervisor, "waiting");
    expect(supervisor.report().message).toContain("the next start is in 1 s");
  });

  test("is retried with the same back-off when its program cannot be started", async () => {
    const supervisor = supervise({ program: [join(dataDir, "nothing")] });
    await state(supervisor, "waiting");
    expect(supervisor.report().message).toBe(
      "the process could not be started (ENOENT); the next start is in 1 s",
    );
  });

  test("is retried when the operating system refuses to start it", async () => {
    // The system refuses to start a process with so large an environment, as it does when memory is short.
    const environment = { PATH: process.env["PATH"], LARGE: "x".repeat(4 * 1024 ** 2) };
    const supervisor = supervise({ environment });
    await state(supervisor, "waiting");
    expect(supervisor.report().message).toMatch(
      /^the process could not be started \(E2BIG\); .* in 1 s$/,
    );
    await clock.advance(1_000);
    await vi.waitFor(() => expect(supervisor.report().message).toMatch(/in 2 s$/), WAIT_OPTIONS);
    expect(supervisor.report()).toMatchObject({ starts: 2, pid: null });
  });
});

describe("an assistant that an earlier process started", () => {
  test("is taken over, and stopped with the supervisor", async () => {
    const pid = await daemon(bySupervisor());
    const supervisor = supervise();
    await state(supervisor, "up");
    expect(supervisor.report()).toMatchObject({ pid, starts: 1, url: "http://127.0.0.1:7777" });
    expect(reasons()).toEqual(["AssistantTakenOver"]);
    const disposed = supervisor[Symbol.asyncDispose]();
    await vi.waitFor(() => expect(others[0]?.exitCode).toBe(0), WAIT_OPTIONS);
    // The supervisor polls until the process is gone.
    await clock.advance(50);
    await disposed;
    expect(existsSync(join(dataDir, "ended well"))).toBe(true);
  });

  test("is restarted when it exits", async () => {
    const pid = await daemon(bySupervisor());
    const supervisor = supervise();
    await state(supervisor, "up");
    process.kill(pid, "SIGKILL");
    await vi.waitFor(() => expect(others[0]?.signalCode).toBe("SIGKILL"), WAIT_OPTIONS);
    await clock.advance(2_000);
    await state(supervisor, "waiting");
    expect(supervisor.report().message).toContain("the next start is in 1 s");
    await clock.advance(1_000);
    await state(supervisor, "up");
    expect(supervisor.report().pid).not.toBe(pid);
    expect(reasons()).toEqual(["AssistantTakenOver", "AssistantEnded", "AssistantUp"]);
  });

  test.each([
    ["version", { version: "0.9.0" }],
    ["port", { settings: { port: 1, dataDir: "", memoryBytesMax: undefined } }],
    ["environment", { environment: { BERTH_ASSISTANT_THREADS: "1" } }],
  ])("is replaced by a new one when its %s differs", async (_what, old) => {
    const settings = "settings" in old ? { settings: { ...old.settings, dataDir } } : {};
    const pid = await daemon(bySupervisor({ ...old, ...settings }));
    const supervisor = supervise();
    // The supervisor polls until the process is gone.
    await vi.waitFor(async () => {
      await clock.advance(50);
      expect(supervisor.report().state).toBe("up");
    }, WAIT_OPTIONS);
    expect(supervisor.report().pid).not.toBe(pid);
    expect(isThere(pid)).toBe(false);
    expect(reasons()).toEqual(["AssistantReplaced", "AssistantUp"]);
  });
});

test("an assistant that was taken over is killed when it has not exited after four seconds", async () => {
  mode("stubborn");
  const pid = await daemon(bySupervisor());
  const supervisor = supervise();
  await state(supervisor, "up");
  const disposed = supervisor[Symbol.asyncDispose]();
  let over = false;
  void disposed.then(() => {
    over = true;
  });
  const since = clock.now();
  await vi.waitFor(async () => {
    await clock.advance(50);
    expect(over).toBe(true);
  }, WAIT_OPTIONS);
  expect(clock.now() - since).toBeGreaterThanOrEqual(4_000);
  // The assistant is a child process of this test, whose exit event may arrive only after the supervisor has ended.
  await vi.waitFor(() => expect(others[0]?.signalCode).toBe("SIGKILL"), WAIT_OPTIONS);
  expect(isThere(pid)).toBe(false);
});

describe("an assistant that belongs to a user or to another Berth", () => {
  test.each([
    ["a person", byPerson],
    ["another Berth", () => bySupervisor({ owner: "other" })],
  ])("is used, and keeps running after the supervisor ends (owner: %s)", async (_who, command) => {
    const pid = await daemon(command());
    const supervisor = supervise();
    await state(supervisor, "foreign");
    expect(supervisor.report()).toMatchObject({ pid, starts: 0 });
    expect(reasons()).toEqual(["AssistantFound"]);
    await clock.advance(10_000);
    await supervisor[Symbol.asyncDispose]();
    expect(isThere(pid)).toBe(true);
  });

  test("is replaced, when it exits, by one that the supervisor starts", async () => {
    const pid = await daemon(byPerson());
    const supervisor = supervise();
    await state(supervisor, "foreign");
    process.kill(pid, "SIGTERM");
    await vi.waitFor(() => expect(others[0]?.exitCode).toBe(0), WAIT_OPTIONS);
    await clock.advance(2_000);
    await state(supervisor, "up");
    expect(supervisor.report().pid).not.toBe(pid);
    expect(reasons()).toEqual(["AssistantFound", "AssistantUp"]);
  });

  test.each(["silent", "nonsense"])(
    "is not replaced, even if its control socket gives no usable answer (%s)",
    async (how) => {
      mode(how);
      const pid = await daemon(byPerson());
      const supervisor = supervise();
      await state(supervisor, "waiting");
      expect(supervisor.report().message).toMatch(
        /^a program listens at the assistant's control socket/,
      );
      expect(isThere(pid)).toBe(true);
    },
  );
});
