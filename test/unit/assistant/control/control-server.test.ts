import { mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ControlServer } from "../../../../src/assistant/inference/control/control-server.ts";
import { KnownModels } from "../../../../src/assistant/inference/models/known-models.ts";
import { ModelFactsCache } from "../../../../src/assistant/inference/models/model-facts.ts";
import { Residency } from "../../../../src/assistant/inference/models/residency.ts";
import { StubEngine } from "../../../../src/assistant/inference/stub/stub-engine.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

let folder: string;
let control: ControlServer;
let residency: Residency;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-control-"));
  const clock = new VirtualClock();
  const engine = new StubEngine({ clock });
  const known = new KnownModels({ folder: undefined, aliases: new Map() });
  await known.register({ id: "a", path: "", isPinned: false });
  residency = new Residency({
    engine,
    known,
    facts: new ModelFactsCache({ engine }),
    memoryBytesMax: 10,
    keepAliveMs: 60_000,
    clock,
    logger: silentLogger,
  });
  control = new ControlServer({
    known,
    residency,
    logger: silentLogger,
    state: () => ({
      version: "0",
      pid: 1,
      engine: "stub",
      url: "http://127.0.0.1:1",
      memory_bytes_max: 10,
      ledger: { ok: true, size: 0 },
    }),
  });
});
afterEach(async () => {
  await control[Symbol.asyncDispose]();
  await residency[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

function call(
  socketPath: string,
  path: string,
  body: unknown,
  agent?: Agent,
): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const asked = request({ socketPath, path, method: "POST", headers, agent }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      answer.once("end", () => resolve({ status: answer.statusCode, text }));
    });
    asked.once("error", reject);
    asked.end(JSON.stringify(body));
  });
}

test("a path that is too long for a socket is refused, and no socket is made elsewhere", async () => {
  const long = join(folder, "x".repeat(60), "y".repeat(60));
  await mkdir(long, { recursive: true });
  await expect(control.listen(join(long, "control.sock"))).rejects.toMatchObject({
    message: expect.stringContaining("too long"),
    hint: expect.stringContaining("--data-dir"),
  });
  expect(await readdir(folder, { recursive: true })).toEqual([
    "x".repeat(60),
    join("x".repeat(60), "y".repeat(60)),
  ]);
});

test("the socket is for its user alone", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

test("many loads over one connection leave nothing behind on it", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => warnings.push(name);
  process.on("warning", onWarning);
  try {
    for (let at = 0; at < 15; at++)
      expect((await call(file, "/models/load", { id: "a" }, agent)).status).toBe(200);
    // Warnings are told in a later turn.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off("warning", onWarning);
    agent.destroy();
  }
  expect(warnings).toEqual([]);
});

test("a file has to be named by its whole path, since the daemon stands somewhere else", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  const { status, text } = await call(file, "/models/load", { id: "b", path: "./b.gguf" });
  expect(status).toBe(400);
  expect(JSON.parse(text).error).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("absolute"),
  });
});
