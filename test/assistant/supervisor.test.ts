import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, expect, onTestFailed, test } from "vitest";
import { ControlClient } from "../../src/controller/models/assistant/control-client.ts";
import { ControlTransport } from "../../src/controller/models/assistant/control-transport.ts";
import type { AssistantReport } from "../../src/controller/models/assistant/port.ts";
import { AssistantProcess } from "../support/assistant-process.ts";
import { bundleProgram } from "../support/bundle-program.ts";
import { freePorts } from "../support/free-port.ts";
import { getModelFile } from "../support/gguf/preset-model.ts";

const PROGRAM = await bundleProgram("test/support/supervisor-process.ts");
const LIMIT = { timeout: 60_000 };
const never = new AbortController().signal;

type Line = AssistantReport & { readonly event: string | null };

let dataDir: string;
let calls: ControlTransport;
let assistant: ControlClient;
const children: ChildProcess[] = [];
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "berth-looked-after-"));
  calls = new ControlTransport({ dataDir });
  assistant = new ControlClient({ calls });
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  // The assistant continues to run without its supervisor.
  const pid = await daemonPid();
  if (pid !== undefined && (await isRunning(pid))) process.kill(pid, "SIGKILL");
  calls[Symbol.dispose]();
  await rm(dataDir, { recursive: true, force: true });
});

async function daemonPid(): Promise<number | undefined> {
  const text = await readFile(join(dataDir, "run/assistant.json"), "utf8").catch(() => "");
  return text === "" ? undefined : Number(JSON.parse(text).pid);
}

/** Starts a process that supervises the assistant of the given data directory. */
function supervisor(port = 0, environment: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, [PROGRAM, dataDir, String(port)], {
    env: { ...process.env, BERTH_ASSISTANT_THREADS: "1", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  const reports: Line[] = [];
  const log: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => reports.push(JSON.parse(line)));
  createInterface({ input: child.stderr }).on("line", (line) => log.push(line));
  onTestFailed(() => void process.stderr.write(`${log.join("\n")}\n`));
  const reaches = async (state: AssistantReport["state"]): Promise<Line> => {
    await expect.poll(() => reports.at(-1)?.state, LIMIT).toBe(state);
    return reports.at(-1) ?? expect.fail("it has said nothing");
  };
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal);
    return ended;
  };
  return { reports, log, reaches, end };
}

async function isRunning(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return status !== "" && !/\) Z /.test(status);
}

test("a killed assistant is restarted and answers again, and SIGTERM ends the supervisor and the assistant", async () => {
  const path = await getModelFile("tiny");
  const { reaches, end, reports, log } = supervisor();
  const { url, pid } = await reaches("up");
  const settings = { contextTokens: undefined, sequences: 1, gpu: undefined };
  const file = { id: "chat", path, contextTokens: undefined, sequences: 1 };
  expect(await assistant.inspect(file, never)).toMatchObject({ kind: "chat" });
  await assistant.load({ id: "chat", aliases: ["org/chat"], path, ...settings }, never);
  const body = { model: "org/chat", messages: [{ role: "user", content: "hi" }], max_tokens: 2 };
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(await answer.json()).toMatchObject({ model: "chat" });

  process.kill(pid ?? 0, "SIGKILL");
  expect(await reaches("waiting")).toMatchObject({
    message: "the process was ended by SIGKILL; the next start is in 1 s",
  });
  const second = await reaches("up");
  expect(second).toMatchObject({ starts: 2 });
  expect(second.pid).not.toBe(pid);
  expect((await assistant.state(never)).models).toEqual([]);
  // The assistant's log lines appear among those of its supervisor.
  expect(log.filter((line) => line.includes("the assistant is ready"))).toHaveLength(2);

  expect(await end("SIGTERM")).toBe(0);
  expect(await isRunning(second.pid ?? 0)).toBe(false);
  expect(reports.map(({ event }) => event).filter((event) => event !== null)).toEqual([
    "AssistantUp",
    "AssistantEnded",
    "AssistantUp",
  ]);
});

test("after a kill of the supervisor the assistant continues, and the next supervisor adopts and stops it", async () => {
  const path = await getModelFile("tiny");
  const first = supervisor();
  const { pid, url } = await first.reaches("up");
  const settings = { contextTokens: undefined, sequences: 1, gpu: undefined };
  await assistant.load({ id: "chat", aliases: [], path, ...settings }, never);
  await first.end("SIGKILL");
  // No process reads the assistant's output now, but writing a log line must not stop the assistant.
  await assistant.unload("chat", never);
  await assistant.load({ id: "chat", aliases: [], path, ...settings }, never);
  expect(await fetch(`${url}/health`)).toMatchObject({ status: 200 });

  const second = supervisor();
  const report = await second.reaches("up");
  expect(report).toMatchObject({ pid, url, starts: 1, event: "AssistantTakenOver" });
  expect((await assistant.state(never)).models).toMatchObject([{ id: "chat", state: "resident" }]);
  expect(await second.end("SIGTERM")).toBe(0);
  expect(await isRunning(pid ?? 0)).toBe(false);
});

test("a port in use is reported, and the start is retried until the port is free", async () => {
  const [port = 0] = await freePorts(1);
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(port, "127.0.0.1", resolve));
  const { reaches, end, reports } = supervisor(port, { BERTH_ASSISTANT_ENGINE: "stub" });
  const waiting = await reaches("waiting");
  expect(waiting.message).toContain(`port ${port} of 127.0.0.1 is taken by another program`);
  expect(waiting.message).toContain("--assistant-port");
  await new Promise((resolve) => holder.close(resolve));
  expect(await reaches("up")).toMatchObject({ url: `http://127.0.0.1:${port}` });
  expect(reports.some(({ state }) => state === "waiting")).toBe(true);
  expect(await end("SIGTERM")).toBe(0);
});

test("an invalid setting of the assistant is reported by its name", async () => {
  const { reaches, end } = supervisor(0, { BERTH_ASSISTANT_QUEUE: "many" });
  expect((await reaches("waiting")).message).toContain("BERTH_ASSISTANT_QUEUE must be");
  expect(await end("SIGTERM")).toBe(0);
});

test("an assistant that a user started is used, never stopped, and replaced when it exits", async () => {
  await using foreign = await AssistantProcess.start(["--engine", "stub", "--data-dir", dataDir]);
  const first = supervisor(0, { BERTH_ASSISTANT_ENGINE: "stub" });
  expect(await first.reaches("foreign")).toMatchObject({ pid: foreign.pid, starts: 0 });
  expect(await first.end("SIGTERM")).toBe(0);
  expect(await isRunning(foreign.pid)).toBe(true);

  const second = supervisor(0, { BERTH_ASSISTANT_ENGINE: "stub" });
  await second.reaches("foreign");
  expect(await foreign.stop()).toBe(0);
  const report = await second.reaches("up");
  expect(report.pid).not.toBe(foreign.pid);
  expect(await second.end("SIGTERM")).toBe(0);
  expect((await readdir(join(dataDir, "ledger"))).length).toBeGreaterThan(0);
});
