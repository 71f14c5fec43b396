import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import { ControlServer } from "../../../../../src/assistant/inference/control/control-server.ts";
import { KnownModels } from "../../../../../src/assistant/inference/models/known-models.ts";
import { ModelFactsCache } from "../../../../../src/assistant/inference/models/model-facts-cache.ts";
import { Residency } from "../../../../../src/assistant/inference/models/residency.ts";
import { StubEngine } from "../../../../../src/assistant/inference/stub/stub-engine.ts";
import { getAssistantControlSocket } from "../../../../../src/base/assistant-paths.ts";
import { BerthError } from "../../../../../src/base/errors.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { ControlClient } from "../../../../../src/controller/models/assistant/control-client.ts";
import { ControlTransport } from "../../../../../src/controller/models/assistant/control-transport.ts";
import type {
  ContainerListenerSpec,
  LoadModelRequest,
} from "../../../../../src/controller/models/assistant/port.ts";
import { GatedEngine } from "../../../../support/gated-engine.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const never = new AbortController().signal;
const MEMORY = 10 * 1024 ** 2;

let dataDir: string;
let calls: ControlTransport;
let client: ControlClient;
let server: Server | undefined;
beforeEach(async () => {
  dataDir = temporaryFolder("client");
  await mkdir(join(dataDir, "run"));
  calls = new ControlTransport({ dataDir });
  client = new ControlClient({ calls });
});
afterEach(() => {
  calls[Symbol.dispose]();
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

/** Starts the assistant's control server on the socket. The test can hold or fail the loads of its engine. */
async function assistant() {
  const clock = new VirtualClock();
  const engine = new GatedEngine(new StubEngine({ clock }));
  const known = new KnownModels({ folder: undefined, aliases: new Map() });
  const facts = new ModelFactsCache({ engine });
  const shared = { known, facts, logger: silentLogger };
  const residency = new Residency({
    ...shared,
    engine,
    memoryBytesMax: MEMORY,
    keepAliveMs: 60_000,
    clock,
  });
  const doors: (readonly ContainerListenerSpec[])[] = [];
  const control = new ControlServer({
    ...shared,
    residency,
    openListeners: async (list) => void doors.push(list),
    state: () => ({
      version: "1.2.3",
      pid: 4711,
      engine: "stub",
      url: "http://127.0.0.1:7777",
      memory_bytes_max: MEMORY,
      started_by: null,
      ledger: { ok: true, size: 0 },
    }),
  });
  await control.listen(getAssistantControlSocket(dataDir));
  return {
    engine,
    doors,
    [Symbol.asyncDispose]: async () => {
      await control[Symbol.asyncDispose]();
      await residency[Symbol.asyncDispose]();
    },
  };
}

/** Starts a plain HTTP server on the control socket. The test defines its answers. */
async function listener(answer: RequestListener): Promise<void> {
  const made = createServer(answer);
  server = made;
  await new Promise<void>((resolve) => made.listen(getAssistantControlSocket(dataDir), resolve));
}

async function model(id = "chat"): Promise<LoadModelRequest> {
  const path = join(dataDir, `${id}.gguf`);
  await writeFile(path, "12345");
  return {
    id,
    path,
    aliases: [`org/${id}`],
    contextTokens: 64,
    sequences: undefined,
    gpu: undefined,
  };
}

describe("the control client of an assistant that answers", () => {
  test("loads, reports and unloads a model; loading or unloading it again does nothing", async () => {
    await using there = await assistant();
    const chat = await model();
    await client.load(chat, never);
    await client.load(chat, never);
    const state = await client.state(never);
    expect(state).toEqual({
      version: "1.2.3",
      pid: 4711,
      engine: "stub",
      url: "http://127.0.0.1:7777",
      memoryBytesMax: MEMORY,
      models: [
        {
          id: "chat",
          aliases: ["org/chat"],
          path: chat.path,
          sizeBytes: 5,
          state: "resident",
          pinned: true,
          memoryBytes: 1,
          wanted: {
            contextTokens: 64,
            sequences: null,
            chatTemplate: null,
            deterministic: null,
          },
          contextTokens: 64,
          sequences: 8,
          loadedAt: "2030-01-01T00:00:00.000Z",
          error: null,
          recovering: false,
        },
      ],
    });
    expect(there.engine.loads).toHaveLength(1);
    await client.load({ ...chat, contextTokens: undefined, memoryBytesMax: 10 }, never);
    expect(there.engine.loads.at(-1)).toMatchObject({
      contextTokens: undefined,
      memoryBytesMax: 10,
    });
    await client.unload("chat", never);
    await client.unload("chat", never);
    expect((await client.state(never)).models).toEqual([]);
  });

  test("inspects a model file without loading it", async () => {
    await using there = await assistant();
    const { path } = await model();
    const file = { id: "chat", path, contextTokens: undefined, sequences: undefined };
    expect(await client.inspect(file, never)).toEqual({
      architecture: "stub",
      name: "Stub",
      parameters: null,
      quantization: null,
      contextTokens: 8_192,
      kind: "chat",
      memoryBytes: { wanted: 1, least: 1 },
    });
    expect(there.engine.loads).toEqual([]);
  });

  test("sets the container listeners", async () => {
    await using there = await assistant();
    const door = { address: "172.18.0.1", port: 1, host: "models", subnets: ["172.18.0.0/16"] };
    await client.setContainerListeners([door], never);
    await client.setContainerListeners([], never);
    expect(there.doors).toEqual([[door], []]);
  });

  test.each([
    ["model_unusable", "model_unusable"],
    ["insufficient_memory", "insufficient_memory"],
    ["shutting_down", "assistant_unreachable"],
    ["engine_failed", "engine_error"],
    ["invalid_request", "engine_error"],
  ] as const)("maps the error %s to %s and keeps its message", async (code, ours) => {
    await using there = await assistant();
    there.engine.failures.set("chat", new AssistantError(code, "so it is"));
    const failure: unknown = await client.load(await model(), never).catch((error) => error);
    expect(failure).toBeInstanceOf(BerthError);
    expect(failure).toMatchObject({ code: ours, message: "so it is" });
  });

  test("reuses one connection, and connects again after the assistant was restarted", async () => {
    let connections = 0;
    for (let start = 1; start <= 2; start++) {
      await listener((_request, response) => response.end("{}"));
      server?.on("connection", () => connections++);
      for (let call = 0; call < 5; call++)
        await calls.call({ method: "GET", path: "/", limitMs: 5_000 }, never);
      expect(connections).toBe(start);
      server?.closeAllConnections();
      await new Promise((resolve) => server?.close(resolve));
    }
  });

  test("repeats a call when the assistant closes the kept connection", async () => {
    const served = new Map<unknown, number>();
    await listener(({ socket }, response) => {
      const before = served.get(socket) ?? 0;
      served.set(socket, before + 1);
      if (before === 0) response.end("{}");
      else socket.destroy();
    });
    for (let call = 0; call < 3; call++)
      await calls.call({ method: "GET", path: "/", limitMs: 5_000 }, never);
    expect([...served.values()]).toEqual([2, 2, 1]);
  });

  test("rejects immediately when the caller aborts while a model loads", async () => {
    await using there = await assistant();
    const open = there.engine.holdLoads();
    const leaving = new AbortController();
    const loading = client.load(await model(), leaving.signal);
    await expect.poll(() => there.engine.loads.length).toBe(1);
    leaving.abort();
    await expect(loading).rejects.toMatchObject({ name: "AbortError" });
    open();
    // The assistant continues the load, although the caller has aborted.
    await expect.poll(async () => (await client.state(never)).models[0]?.state).toBe("resident");
  });
});

describe("the control client of an assistant that does not answer correctly", () => {
  test("reports it as unreachable when the socket is missing or stale", async () => {
    await expect(client.state(never)).rejects.toMatchObject({
      code: "assistant_unreachable",
      cause: { code: "ENOENT" },
    });
    await writeFile(getAssistantControlSocket(dataDir), "");
    await expect(client.load(await model(), never)).rejects.toMatchObject({
      code: "assistant_unreachable",
      cause: { code: "ECONNREFUSED" },
      hint: expect.stringContaining("berth doctor"),
    });
  });

  test("reports it as unreachable when it closes the connection before it answers", async () => {
    await listener((request) => request.socket.destroy());
    await expect(client.state(never)).rejects.toMatchObject({ code: "assistant_unreachable" });
  });

  test("reports it as unreachable when it does not answer within two seconds", async () => {
    await listener(() => {});
    await expect(client.state(never)).rejects.toMatchObject({
      code: "assistant_unreachable",
      message: "the assistant did not answer within 2 s",
    });
  });

  test("reports an error when the response is not complete within the time limit", async () => {
    await listener((_request, response) => response.write("{"));
    await expect(
      calls.call({ method: "POST", path: "/models/load", limitMs: 50 }, never),
    ).rejects.toMatchObject({ code: "engine_error", message: expect.stringContaining("0.05 s") });
  });

  test.each([
    ["no JSON", 200, "<html>"],
    ["another document", 200, '{"models":[{"id":1}]}'],
    ["an error without a code", 500, '{"error":"x"}'],
    ["a document that is too large", 200, `"${"x".repeat(9 * 1024 ** 2)}"`],
  ])(
    "reports an answer that is not understood when the assistant sends %s",
    async (_what, status, text) => {
      await listener((_request, response) => {
        response.statusCode = status;
        response.end(text);
      });
      await expect(client.state(never)).rejects.toMatchObject({
        code: "engine_error",
        message: "the assistant's answer is not understood",
      });
    },
  );
});

test("the state of the assistant is returned without a wait, even while 40 models load", async () => {
  await using there = await assistant();
  const open = there.engine.holdLoads();
  const loads = Array.from({ length: 40 }, async (_, index) =>
    client.load(await model(`m${index}`), new AbortController().signal),
  );
  await expect.poll(async () => (await client.state(never)).models.length).toBe(40);
  open();
  await Promise.all(loads);
});
