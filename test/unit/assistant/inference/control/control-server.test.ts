import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ControlServer } from "../../../../../src/assistant/inference/control/control-server.ts";
import type { ControlModelView } from "../../../../../src/assistant/inference/control/state-view.ts";
import { KnownModels } from "../../../../../src/assistant/inference/models/known-models.ts";
import { ModelFactsCache } from "../../../../../src/assistant/inference/models/model-facts-cache.ts";
import { Residency } from "../../../../../src/assistant/inference/models/residency.ts";
import { StubEngine } from "../../../../../src/assistant/inference/stub/stub-engine.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const MEBIBYTE = 1024 ** 2;

let folder: string;
let control: ControlServer;
let residency: Residency;
beforeEach(async () => {
  folder = temporaryFolder("control");
  const clock = new VirtualClock();
  const engine = new StubEngine({ clock });
  const known = new KnownModels({ folder: undefined, aliases: new Map() });
  await known.register({ id: "a", path: "", isPinned: false });
  const facts = new ModelFactsCache({ engine });
  residency = new Residency({
    engine,
    known,
    facts,
    memoryBytesMax: 10 * MEBIBYTE,
    keepAliveMs: 60_000,
    clock,
    logger: silentLogger,
  });
  control = new ControlServer({
    known,
    facts,
    residency,
    logger: silentLogger,
    openListeners: async () => {},
    state: () => ({
      version: "0",
      pid: 1,
      engine: "stub",
      url: "http://127.0.0.1:1",
      memory_bytes_max: 10,
      started_by: null,
      ledger: { ok: true, size: 0 },
    }),
  });
});
afterEach(async () => {
  await control[Symbol.asyncDispose]();
  await residency[Symbol.asyncDispose]();
});

function call(
  socketPath: string,
  path: string,
  body: unknown,
  agent?: Agent,
): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const outgoing = request({ socketPath, path, method: "POST", headers, agent }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      answer.once("end", () => resolve({ status: answer.statusCode, text }));
    });
    outgoing.once("error", reject);
    outgoing.end(JSON.stringify(body));
  });
}

test("a control socket whose path is too long is refused, and no socket is created elsewhere", async () => {
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

test("only the daemon's user can open the control socket", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

test("many loads over one connection leave no listeners on the connection", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => warnings.push(name);
  process.on("warning", onWarning);
  try {
    for (let at = 0; at < 15; at++)
      expect((await call(file, "/models/load", { id: "a" }, agent)).status).toBe(200);
    // Node.js emits warnings in a later turn of the event loop, for which the test waits.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off("warning", onWarning);
    agent.destroy();
  }
  expect(warnings).toEqual([]);
});

test("a model file needs an absolute path, because the daemon has another working directory", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  const { status, text } = await call(file, "/models/load", { id: "b", path: "./b.gguf" });
  expect(status).toBe(400);
  expect(JSON.parse(text).error).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("absolute"),
  });
});

test("the state of a model shows the settings of its registration and the settings in use", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  const path = join(folder, "chat.gguf");
  await writeFile(path, "12345");
  const settings = { context_tokens: 64, aliases: ["org/chat"] };
  const { status, text } = await call(file, "/models/load", { id: "chat", path, ...settings });
  expect(status).toBe(200);
  const { models }: { models: ControlModelView[] } = JSON.parse(text);
  expect(models.find(({ id }) => id === "chat")).toMatchObject({
    path,
    size_bytes: 5,
    aliases: ["org/chat"],
    state: "resident",
    pinned: true,
    wanted: { context_tokens: 64, sequences: null, chat_template: null, deterministic: null },
    context_tokens: 64,
    sequences: 8,
    memory_bytes: 64 * 8 * 8,
  });
  expect(models.find(({ id }) => id === "a")).toMatchObject({ path: null, size_bytes: null });
});

test("inspecting a file does not register a model", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  const body = { id: "chat", path: "/chat.gguf", sequences: 2 };
  const { status, text } = await call(file, "/models/inspect", body);
  expect(status).toBe(200);
  expect(JSON.parse(text)).toEqual({
    architecture: "stub",
    name: "Stub",
    parameters: null,
    quantization: null,
    context_tokens: 8_192,
    kind: "chat",
    memory_bytes: { wanted: 8_192 * 2 * 8, least: 512 * 2 * 8 },
  });
  expect((await residency.states()).map(({ id }) => id)).toEqual(["a"]);
  // The model gets at most the context for which it was trained, so a larger requested context needs no more memory.
  const longer = await call(file, "/models/inspect", { ...body, context_tokens: 100_000 });
  expect(JSON.parse(longer.text).memory_bytes.wanted).toBe(8_192 * 2 * 8);
});

test.each([
  ["/models/load", { id: "a", sequences: 2 }, 400, "sequences requires the path of the file"],
  ["/models/load", { id: "a", aliases: ["b"] }, 400, "aliases requires the path of the file"],
  ["/models/load", { id: "b", path: "/b", gpu: true }, 409, "uses only the processor"],
  ["/models/load", { id: "b", path: "/b", aliases: ["a"] }, 400, "the id of another model"],
  ["/models/load", { id: "b", path: "/b", aliases: ["a b"] }, 400, "body/aliases/0"],
  ["/models/load", { id: "b", path: "/b", sequences: "2" }, 400, "body/sequences"],
  ["/models/load", { id: "b", path: "/b", threads: 2 }, 400, "additional properties"],
  ["/models/load", { id: "nowhere" }, 404, 'there is no model "nowhere"'],
  ["/models/inspect", { id: "b", path: "b" }, 400, "absolute"],
  ["/models/inspect", { id: "b" }, 400, "path"],
])("the control request %s with the body %j is refused", async (path, body, status, message) => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  const answer = await call(file, path, body);
  expect(JSON.parse(answer.text).error.message).toContain(message);
  expect(answer.status).toBe(status);
  expect((await residency.states()).map(({ id }) => id)).toEqual(["a"]);
});

test("a chat template is registered as its text or as the path of a file, and a bad one is refused", async () => {
  const file = join(folder, "control.sock");
  await control.listen(file);
  const path = join(folder, "chat.gguf");
  await writeFile(path, "12345");
  const template = join(folder, "chat.jinja");
  await writeFile(template, "{{ messages[0].content }}");
  for (const chat_template of ["{{ bos_token }}", template]) {
    const { text } = await call(file, "/models/load", { id: "chat", path, chat_template });
    const { models }: { models: ControlModelView[] } = JSON.parse(text);
    expect(models.find(({ id }) => id === "chat")).toMatchObject({ wanted: { chat_template } });
  }
  expect((await residency.states()).find(({ id }) => id === "chat")?.known.chatTemplate).toBe(
    "{{ messages[0].content }}",
  );
  for (const [chat_template, code, message] of [
    ["chat.jinja", "invalid_request", "absolute path"],
    [join(folder, "missing.jinja"), "invalid_request", "cannot be read"],
    ["{% for m in messages %}", "model_unusable", "is invalid"],
  ] as const) {
    const { text } = await call(file, "/models/load", { id: "chat", path, chat_template });
    expect(JSON.parse(text).error).toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  }
});
