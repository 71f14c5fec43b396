import { execFile } from "node:child_process";
import { once } from "node:events";
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseManifest } from "../../../src/assistant/agent/manifests/parse-manifest.ts";
import type { JsonObject } from "../../../src/assistant/agent/port.ts";
import type { AppManifest, ToolDeclaration } from "../../../src/assistant/agent/tool-manifest.ts";
import { ExampleApp, examplePath, readExample } from "../../support/example-app.ts";
import { getToolAppError, McpHarness } from "../../support/mcp-harness.ts";

const run = promisify(execFile);

let harness: McpHarness;

beforeEach(async () => {
  harness = await McpHarness.open();
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
});

async function manifestOf(file: string): Promise<AppManifest> {
  const name = file.slice(file.lastIndexOf("/") + 1, -".json".length);
  const { manifest, faults } = parseManifest(await readExample(file), name);
  expect(faults).toEqual([]);
  if (!manifest) throw new Error(`${file} is not taken`);
  return manifest;
}

/** Asserts that the app's own descriptions of its tools equal those that the manifest declares. */
async function expectDeclared(manifest: AppManifest): Promise<void> {
  expect(manifest.tools.length).toBeGreaterThan(4);
  for (const tool of manifest.tools) {
    const { signal } = new AbortController();
    const live = await harness.apps.getDefinition(manifest, tool.name, signal);
    const { $schema: _, ...schema } = live?.inputSchema ?? {};
    const { name, description, inputSchema } = tool;
    expect({ name, description: live?.description, inputSchema: schema }).toEqual({
      name,
      description,
      inputSchema,
    });
  }
}

function toolOf(manifest: AppManifest, name: string): ToolDeclaration {
  const tool = manifest.tools.find((one) => one.name === name);
  if (!tool) throw new Error(`there is no tool ${name}`);
  return tool;
}

function fieldOf(value: unknown, field: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, field) : undefined;
}

/** Returns the compensation that the manifest declares for a call. */
function compensation(
  manifest: AppManifest,
  name: string,
  input: JsonObject,
  result: JsonObject | undefined,
): readonly [string, JsonObject] {
  const { undo } = toolOf(manifest, name);
  if (!undo) throw new Error(`${name} has no undo`);
  const args = [...undo.map].map(([argument, { from, fields }]) => [
    argument,
    fields.reduce<unknown>(fieldOf, from === "input" ? input : result),
  ]);
  return [undo.tool, Object.fromEntries(args)];
}

describe("the notes app", () => {
  const id = "org.example.Notes";
  let dataDir: string;
  let manifest: AppManifest;

  beforeEach(async () => {
    dataDir = join(harness.dir, "data");
    manifest = await manifestOf("notes-app/org.example.Notes.json");
  });

  async function start(): Promise<ExampleApp> {
    return harness.use(
      await ExampleApp.start("notes-app/notes.mjs", {
        runtimeDir: harness.dir,
        environment: { XDG_DATA_HOME: dataDir },
      }),
    );
  }

  const call = async (name: string, args: JsonObject = {}) => {
    const result = await harness.call(id, name, args);
    expect(result).toMatchObject({ isError: false });
    return result.structured;
  };
  const titles = async (): Promise<unknown[]> => {
    const notes = (await call("list_notes"))?.["notes"];
    return Array.isArray(notes) ? notes.map(({ title }) => title) : [];
  };

  it("offers the tools that its manifest declares, with all three tiers: read, write and destructive", async () => {
    await start();
    await expectDeclared(manifest);
    expect(new Set(manifest.tools.map(({ tier }) => tier))).toEqual(
      new Set(["read", "write", "destructive"]),
    );
    const { properties } = toolOf(manifest, "create_note").inputSchema;
    expect(properties).toMatchObject({ title: { maxLength: 120 }, body: { maxLength: 4000 } });
  });

  it("stores notes, and undoes its changes", async () => {
    await start();
    const [milk, bread] = [
      { title: "Milk", body: "two bottles" },
      { title: "Bread", body: "rye" },
    ];
    const created = await call("create_note", milk);
    const other = await call("create_note", bread);
    expect(await titles()).toEqual(["Bread", "Milk"]);
    expect(await call("search_notes", { query: "BOTTLES two" })).toMatchObject({ notes: [milk] });
    expect(await call("read_note", { id: created?.["id"] })).toMatchObject(milk);

    const change = { id: created?.["id"], title: "Oat milk", body: "one" };
    const changed = await call("update_note", change);
    expect(await titles()).toEqual(["Oat milk", "Bread"]);
    await call(...compensation(manifest, "update_note", change, changed));
    expect(await call("read_note", { id: created?.["id"] })).toMatchObject({
      ...milk,
      created_at: created?.["created_at"],
    });

    const deletion = { id: other?.["id"] };
    const deleted = await call("delete_note", deletion);
    expect(await titles()).toEqual(["Milk"]);
    await call(...compensation(manifest, "delete_note", deletion, deleted));
    expect(await call("read_note", deletion)).toMatchObject({
      ...bread,
      created_at: other?.["created_at"],
    });

    await call(...compensation(manifest, "create_note", milk, created));
    expect(await titles()).toEqual(["Bread"]);
  });

  it("reports the problem of an invalid call", async () => {
    await start();
    const missing = await harness.call(id, "read_note", { id: "gone" });
    expect(missing.isError).toBe(true);
    expect(JSON.stringify(missing.content)).toContain("there is no note gone");
    const long = await harness.call(id, "create_note", { title: "x".repeat(121), body: "" });
    expect(long.isError).toBe(true);
    expect(await titles()).toEqual([]);
  });

  it("keeps every note of many concurrent calls, even through a crash", async () => {
    const app = await start();
    const numbers = Array.from({ length: 24 }, (_, index) => String(index));
    await Promise.all(numbers.map((title) => call("create_note", { title, body: "" })));
    await app.kill();
    expect((await getToolAppError(harness.call(id, "list_notes"))).code).toBe("app_unavailable");
    await start();
    expect(new Set(await titles())).toEqual(new Set(numbers));
    const file = join(dataDir, id, "notes.json");
    expect(JSON.parse(await readFile(file, "utf8"))).toHaveLength(24);
  });

  it("exits with an error if it is running already, and removes its socket when it exits", async () => {
    const app = await start();
    await expect(start()).rejects.toThrow("is running already");
    await app[Symbol.asyncDispose]();
    expect(app.exitCode).toBe(0);
    await expect(access(join(harness.socketsDir, `${id}.sock`))).rejects.toThrow("ENOENT");
  });
});

describe("the bridge to an MCP server of another package", () => {
  const id = "org.example.Memory";
  const server = [
    process.execPath,
    new URL(
      "../../../node_modules/@modelcontextprotocol/server-memory/dist/index.js",
      import.meta.url,
    ).pathname,
  ] as const;

  async function start(command: readonly string[] = server): Promise<ExampleApp> {
    return harness.use(
      await ExampleApp.start("mcp-bridge/bridge.mjs", {
        runtimeDir: harness.dir,
        args: [id, "--", ...command],
        environment: { MEMORY_FILE_PATH: join(harness.dir, "memory.jsonl") },
      }),
    );
  }

  it("offers the tools of the server as the manifest declares them", async () => {
    await start();
    const manifest = await manifestOf("mcp-bridge/org.example.Memory.json");
    await expectDeclared(manifest);
    const entities = ["Ada", "Engine"].map((name) => ({
      name,
      entityType: "thing",
      observations: [],
    }));
    await harness.call(id, "create_entities", { entities });
    const input = { relations: [{ from: "Ada", to: "Engine", relationType: "programs" }] };
    const created = await harness.call(id, "create_relations", input);
    expect((await harness.call(id, "read_graph")).structured).toMatchObject(input);
    await harness.call(
      id,
      ...compensation(manifest, "create_relations", input, created.structured),
    );
    expect((await harness.call(id, "read_graph")).structured).toMatchObject({
      entities,
      relations: [],
    });
  });

  it("stops the server when the connection or the bridge ends", async () => {
    const app = await start();
    await harness.call(id, "read_graph");
    await app[Symbol.asyncDispose]();
    expect(app.exitCode).toBe(0);
    expect(harness.apps.isConnected(id)).toBe(false);
    expect((await getToolAppError(harness.call(id, "read_graph"))).code).toBe("app_unavailable");
  });

  it("closes the connection if the server cannot be started", async () => {
    const app = await start(["/nonexistent/server"]);
    expect((await getToolAppError(harness.call(id, "read_graph"))).code).toBe("transport_closed");
    await expect.poll(() => app.stderr.join("\n")).toContain("could not be started");
  });

  it("prints a manifest in which the tools have the tier destructive, until the user declares another tier", async () => {
    await start();
    const environment = {
      PATH: process.env["PATH"],
      XDG_RUNTIME_DIR: harness.dir,
      MEMORY_FILE_PATH: join(harness.dir, "memory.jsonl"),
    };
    const program = examplePath("mcp-bridge/manifest-of.mjs");
    for (const args of [[id], [id, "--", ...server]]) {
      const { stdout } = await run(process.execPath, [program, ...args], { env: environment });
      const { manifest, faults } = parseManifest(Buffer.from(stdout), id);
      expect(faults).toEqual([]);
      const declared = await manifestOf("mcp-bridge/org.example.Memory.json");
      expect(manifest?.tools.map(({ name }) => name)).toEqual(
        declared.tools.map(({ name }) => name),
      );
      expect(manifest?.tools.every(({ tier, undo }) => tier === "destructive" && !undo)).toBe(true);
    }
    const usage = run(process.execPath, [program], { env: environment });
    await expect(usage).rejects.toThrow("usage:");
  });

  it("waits until the server has started, and repeats the handshake for a server that knows only the older one", async () => {
    const program = examplePath("mcp-bridge/manifest-of.mjs");
    const env = { PATH: process.env["PATH"], XDG_RUNTIME_DIR: harness.dir };
    const nobody = run(process.execPath, [program, "org.example.Nobody"], { env }).catch(String);
    const late = run(process.execPath, [program, "org.example.Late"], { env });
    if (!late.child.stderr) throw new Error("its output is not read");
    await once(late.child.stderr, "data");
    // The server behaves like older ones that ignore every request before `initialize`.
    const app = await harness.startRawApp("org.example.Late", ({ method }) =>
      method === "server/discover" ? "handled" : undefined,
    );
    const { manifest } = parseManifest(Buffer.from((await late).stdout), "org.example.Late");
    expect(manifest?.tools.map(({ name }) => name)).toEqual(["echo"]);
    expect(app.connections).toBe(2);
    expect(await nobody).toContain("start it first");
  });
});
