import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { ManifestRegistry } from "../../src/assistant/agent/manifests/manifest-registry.ts";
import { systemClock } from "../../src/base/clock.ts";
import { isObject } from "../../src/base/json.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { AgentHarness, userCaller } from "../support/agent-harness.ts";
import { findCurrentGo } from "../support/current-go.ts";
import { examplePath } from "../support/example-app.ts";
import { McpHarness } from "../support/mcp-harness.ts";
import { installPythonMcp } from "../support/python-tools.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

/** Tests of apps that use the official MCP SDKs of other languages, and whose manifests are written by hand. */

/** The limit is high, because the first run downloads and compiles the SDK. */
const PREPARE_LIMIT_MS = 900_000;

interface ExampleTools {
  readonly add: string;
  readonly list: string;
  readonly remove: string;
  readonly args: Readonly<Record<string, string>>;
  /** The field with the entries in the result of the tool that lists them. */
  readonly entries: string;
}

/** Starts the program. Resolves when it listens; rejects with its output if it exits before that. */
async function start(
  [program, ...args]: readonly [string, ...string[]],
  runtimeDir: string,
): Promise<ChildProcess> {
  const child = spawn(program, args, {
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: process.env["PATH"], XDG_RUNTIME_DIR: runtimeDir, XDG_DATA_HOME: runtimeDir },
  });
  const lines: string[] = [];
  await new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    createInterface({ input: child.stderr })
      .on("line", (line) => {
        lines.push(line);
        if (line.endsWith(" listens")) resolve();
      })
      .once("close", () => reject(new Error(lines.join("\n"))));
  });
  return child;
}

/**
 * Starts the app, calls all its tools through an agent with the app's manifest, and checks that no call is refused.
 * Returns the exit code of the app after SIGTERM.
 */
async function callAllTools(
  command: readonly [string, ...string[]],
  folder: string,
  appId: string,
  tools: ExampleTools,
): Promise<number | null> {
  await using mcp = await McpHarness.open();
  const child = await start(command, mcp.dir);
  try {
    const directories = [examplePath(folder)];
    await using registry = new ManifestRegistry({
      directories,
      clock: systemClock,
      logger: silentLogger,
    });
    await registry.start();
    expect(registry.report()).toMatchObject([{ appId, status: "taken", faults: [] }]);
    const harness = await AgentHarness.open({ registry, apps: mcp.apps });
    await using agent = harness.agent;
    const list = async () => {
      const answer = await harness.request(tools.list, {}, { appId });
      expect(answer).toMatchObject({ disposition: "executed" });
      const { result } = answer.detail;
      return isObject(result) ? result[tools.entries] : undefined;
    };

    expect(await list()).toEqual([]);
    const { callId } = await harness.request(tools.add, tools.args, { appId });
    const added = await agent.confirm(callId, true, userCaller());
    expect(added).toMatchObject({ status: "executed", detail: { result: tools.args } });
    expect(await list()).toEqual([added.detail.result]);
    expect(await agent.undo(userCaller())).toMatchObject({ status: "undone", call_id: callId });
    expect(await list()).toEqual([]);
    const missing = await harness.request(tools.remove, { id: "none" }, { appId });
    expect(await agent.confirm(missing.callId, true, userCaller())).toMatchObject({
      status: "failed",
      detail: { code: "tool_error", message: expect.stringContaining("none") },
    });
  } finally {
    child.kill("SIGTERM");
    if (child.exitCode === null) await once(child, "close");
  }
  return child.exitCode;
}

test(
  "an app with the Python SDK runs with a manifest that is written by hand",
  async () => {
    const python = join(await installPythonMcp(), "python");
    const command = [python, examplePath("python-app/tasks.py")] as const;
    const exitCode = await callAllTools(command, "python-app", "org.example.Tasks", {
      add: "add_task",
      list: "list_tasks",
      remove: "remove_task",
      args: { text: "water the plants" },
      entries: "tasks",
    });
    expect(exitCode).toBe(0);
  },
  PREPARE_LIMIT_MS,
);

test(
  "an app with the Go SDK runs with a manifest that is written by hand",
  async () => {
    const program = join(temporaryFolder("go-app"), "bookmarks");
    const go = await findCurrentGo();
    await promisify(execFile)(go, ["build", "-o", program, "."], { cwd: examplePath("go-app") });
    const exitCode = await callAllTools([program], "go-app", "org.example.Bookmarks", {
      add: "add_bookmark",
      list: "list_bookmarks",
      remove: "remove_bookmark",
      args: { url: "https://example.org/", title: "Example" },
      entries: "bookmarks",
    });
    expect(exitCode).toBe(0);
  },
  PREPARE_LIMIT_MS,
);
