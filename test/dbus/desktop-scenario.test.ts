import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CompanionProcess } from "../support/companion-process.ts";
import { DesktopHarness, MEMORY, NOTES } from "../support/desktop-harness.ts";
import { echoTool, RawApp } from "../support/raw-app.ts";
import type { TestSessionBus } from "../support/test-session-bus.ts";

/**
 * A scenario of a desktop client that uses common D-Bus programs instead of Berth's own client. It runs the real daemon
 * with two example apps on a private bus. The tests run in order, and each builds on those before it.
 */

const AGENT = ["dev.assistant.Agent1", "/dev/assistant/Agent1", "dev.assistant.Agent1"] as const;
const CONTEXT = [
  "dev.assistant.Context1",
  "/dev/assistant/Context1",
  "dev.assistant.Context1",
] as const;
let desktop: DesktopHarness;
let bus: TestSessionBus;
let companion: CompanionProcess;

beforeAll(async () => {
  desktop = await DesktopHarness.start();
  ({ bus, companion } = desktop);
});

afterAll(async () => {
  await desktop[Symbol.asyncDispose]();
});

interface Detail {
  readonly code: string;
  readonly result?: { readonly id?: string; readonly notes?: readonly { readonly id: string }[] };
  readonly ledger?: { readonly seq: number };
  readonly undoable?: boolean;
}

/** Parses the details of a call. The result is not validated: a test that reads a missing member fails. */
function parseDetail(json: unknown): Detail {
  const detail: Detail = JSON.parse(String(json));
  return detail;
}

/** Sends RequestCall with busctl. */
async function requestCall(
  app: string,
  tool: string,
  args: object,
  provenance: readonly string[],
): Promise<{ readonly id: string; readonly disposition: string; readonly detail: Detail }> {
  const [id, disposition, detail] = await bus.busctlCall(
    ...AGENT,
    "RequestCall",
    "sssa{sv}",
    app,
    tool,
    JSON.stringify(args),
    "1",
    "provenance",
    "as",
    String(provenance.length),
    ...provenance,
  );
  return { id: String(id), disposition: String(disposition), detail: parseDetail(detail) };
}

async function confirm(id: string, approve: boolean): Promise<{ status: string; detail: Detail }> {
  const [status, detail] = await bus.busctlCall(...AGENT, "Confirm", "tb", id, String(approve));
  return { status: String(status), detail: parseDetail(detail) };
}

async function listNoteIds(): Promise<readonly string[]> {
  const { disposition, detail } = await requestCall(NOTES, "list_notes", {}, ["user"]);
  expect(disposition).toBe("executed");
  return (detail.result?.notes ?? []).map(({ id }) => id);
}

async function undo(): Promise<unknown> {
  const [report] = await bus.busctlCall(...AGENT, "Undo");
  const said: unknown = JSON.parse(String(report));
  return said;
}

async function search(...options: readonly string[]): Promise<unknown[]> {
  const [hits] = await bus.busctlCall(
    ...CONTEXT,
    "Search",
    "sa{sv}",
    "boiler pressure",
    ...options,
  );
  const found: unknown[] = JSON.parse(String(hits));
  return found;
}

describe("a desktop client", () => {
  let note = "";

  it("sees the daemon and the tools of both apps", async () => {
    expect(await bus.gdbusCall(AGENT[0], AGENT[1], `${AGENT[2]}.Ping`)).toMatch(/^\('berth \d/);
    const [json] = await bus.busctlCall(...AGENT, "ListTools");
    const tools: unknown = JSON.parse(String(json));
    expect(tools).toContainEqual(
      expect.objectContaining({
        app_id: NOTES,
        name: "create_note",
        tier: "write",
        undoable: true,
      }),
    );
    expect(tools).toContainEqual(
      expect.objectContaining({ app_id: MEMORY, name: "read_graph", tier: "read" }),
    );
    const [found] = await bus.busctlCall(...AGENT, "Discover", "s", "write down a thought");
    expect(String(found)).toContain("create_note");
  });

  it("runs a read-only tool without a question if the provenance is user", async () => {
    expect(await listNoteIds()).toEqual([]);
    const graph = await requestCall(MEMORY, "read_graph", {}, ["user"]);
    expect(graph.disposition).toBe("executed");
  });

  it("needs a confirmation if the provenance is unknown", async () => {
    const { id, disposition } = await requestCall(NOTES, "list_notes", {}, []);
    expect(disposition).toBe("confirm-chip");
    expect(await confirm(id, false)).toMatchObject({
      status: "denied",
      detail: { code: "declined" },
    });
  });

  it("parks a write call, notifies every frontend, and runs the call once after confirmation", async () => {
    await using frontend = await bus.monitor(AGENT[0]);
    const { id, disposition, detail } = await requestCall(
      NOTES,
      "create_note",
      { title: "Milk", body: "two bottles" },
      ["user"],
    );
    expect(disposition).toBe("confirm-chip");
    expect(detail.code).toBe("confirm");
    const asked = await frontend.line(/ConfirmationRequested/);
    expect(asked).toContain("two bottles");
    expect(asked).toContain(`(uint64 ${id},`);
    expect(await listNoteIds()).toEqual([]);

    const { status, detail: ended } = await confirm(id, true);
    expect(status).toBe("executed");
    await frontend.line(new RegExp(`CallResolved \\(uint64 ${id}, 'executed'\\)`));
    note = ended.result?.id ?? "";
    expect(await listNoteIds()).toEqual([note]);
    // A late confirmation has no effect, and returns the result of the first confirmation.
    expect(await confirm(id, true)).toMatchObject({
      status: "executed",
      detail: { replayed: true },
    });
    expect(await listNoteIds()).toEqual([note]);
  });

  it("shows a modal for a destructive tool, with a hold time if a web page influenced the call", async () => {
    await using frontend = await bus.monitor(AGENT[0]);
    const { id, disposition } = await requestCall(NOTES, "delete_note", { id: note }, [
      "user",
      "web:news.example",
    ]);
    expect(disposition).toBe("confirm-modal");
    expect(await frontend.line(/ConfirmationRequested/)).toContain('"hold_ms":1500');
    await expect(
      bus.gdbusCall(AGENT[0], AGENT[1], `${AGENT[2]}.Confirm`, id, "true"),
    ).rejects.toMatchObject({ busName: "dev.assistant.Error.Busy" });
    expect(await listNoteIds()).toEqual([note]);
    await expect
      .poll(() => confirm(id, true).catch(() => undefined), { timeout: 10_000 })
      .toMatchObject({ status: "executed", detail: { undoable: true } });
    expect(await listNoteIds()).toEqual([]);
  });

  it("undoes the last call, and then the call before it", async () => {
    expect(await undo()).toMatchObject({ status: "undone", tool: "delete_note", remaining: 1 });
    expect(await listNoteIds()).toEqual([note]);
    expect(await undo()).toMatchObject({ status: "undone", tool: "create_note", remaining: 0 });
    expect(await listNoteIds()).toEqual([]);
    expect(await undo()).toMatchObject({ status: "nothing", call_id: null });
  });

  it("gets a refusal without a question for invalid arguments", async () => {
    const { disposition, detail } = await requestCall(
      NOTES,
      "create_note",
      { title: "x".repeat(121), body: "" },
      ["user"],
    );
    expect(disposition).toBe("failed");
    expect(detail).toMatchObject({ code: "invalid_args", errors: [{ path: "/title" }] });
  });

  it("searches the user's data in the scope that it names", async () => {
    await expect.poll(() => search("0")).toHaveLength(1);
    expect(await search("1", "scopes", "as", "1", "home")).toMatchObject([
      { source: "papers", provenance: "file:papers", snippet: expect.stringContaining("1.5 bar") },
    ]);
    expect(await search("1", "scopes", "as", "0")).toEqual([]);
    expect(await search("1", "scopes", "as", "1", "work")).toEqual([]);
    await expect(search("1", "limit", "u", "0")).rejects.toThrow(/limit/);
  });

  it("stores memory for each app, and wipes it", async () => {
    const memory = (member: string, ...args: readonly string[]) =>
      bus.busctlCall(...CONTEXT, member, "s".repeat(args.length), ...args);
    await memory("MemorySet", NOTES, "colour", "blue");
    expect(await memory("MemoryGet", NOTES, "colour")).toEqual(["blue"]);
    expect(JSON.parse(String((await memory("MemoryList", NOTES))[0]))).toEqual({ colour: "blue" });
    expect(await memory("MemoryList", MEMORY)).toEqual(["{}"]);
    await memory("MemoryWipe", NOTES);
    await expect(
      bus.gdbusCall(CONTEXT[0], CONTEXT[1], `${CONTEXT[2]}.MemoryGet`, NOTES, "colour"),
    ).rejects.toMatchObject({ busName: "dev.assistant.Error.NotFound" });
  });

  it("streams tokens over a pipe, twice in one session", async () => {
    const run = await bus.run("/usr/bin/python3", ["-c", STREAMING_CLIENT]);
    expect(run).toMatchObject({ code: 0, stderr: "" });
    const said: readonly string[] = JSON.parse(run.stdout);
    const [first, second, finished] = said;
    expect(first).not.toBe("");
    expect(second).not.toBe("");
    expect(finished).toBe("completed");
  });

  it("can verify the ledger after all calls", async () => {
    const verdict = await companion.berth(["ledger", "verify", "--user"]);
    expect(verdict).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whole: /) });
    const tail = await companion.berth(["ledger", "tail", "--user", "-n", "200", "--json"]);
    const names = [...tail.stdout.matchAll(/"name":\s*"(?<name>[a-z.]+)"/g)].map(
      (match) => match.groups?.["name"],
    );
    for (const name of [
      "agent.call.requested",
      "agent.call.parked",
      "agent.call.confirmed",
      "agent.call.declined",
      "agent.call.dispatch",
      "agent.call.result",
      "agent.undo.dispatch",
      "agent.undo.result",
      "context.search",
      "context.search.scoped",
      "memory.set",
      "memory.wipe",
      "inference.generate",
    ]) {
      expect(names).toContain(name);
    }
    expect(tail.stdout).not.toContain("two bottles");
  });

  it("gets an answer to a call that still runs when the companion is stopped", async () => {
    const hanging = "org.example.Hanging";
    const tool = {
      name: "echo",
      tier: "read",
      description: "Echoes.",
      input_schema: echoTool.inputSchema,
    };
    await writeFile(
      join(companion.manifestsDir, `${hanging}.json`),
      JSON.stringify({
        svc_manifest: 1,
        app_id: hanging,
        name: "Hanging",
        mcp: { transport: "unix", activatable: false },
        tools: [tool],
      }),
    );
    await expect
      .poll(async () => String(await bus.busctlCall(...AGENT, "ListTools")), { timeout: 10_000 })
      .toContain(hanging);
    await using app = await RawApp.start(companion.ready.apps_dir, hanging, ({ method }) =>
      method === "tools/call" ? "handled" : undefined,
    );
    const called = requestCall(hanging, "echo", {}, ["user"]);
    await expect.poll(() => app.methods, { timeout: 10_000 }).toContain("tools/call");
    const stopped = companion.stop();
    expect(await called).toMatchObject({
      disposition: "failed",
      detail: { code: "interrupted", outcome: "unknown" },
    });
    expect(await stopped).toBe(0);
  });
});

/** A program with GLib's D-Bus client, which receives the pipe like any desktop program. */
const STREAMING_CLIENT = `
import json, os
from gi.repository import Gio, GLib
bus = Gio.bus_get_sync(Gio.BusType.SESSION)
name, path, iface = "dev.assistant.Inference1", "/dev/assistant/Inference1", "dev.assistant.Inference1"
answer, fds = bus.call_with_unix_fd_list_sync(
    name, path, iface, "OpenSession", GLib.Variant("(a{sv})", ({},)),
    GLib.VariantType("(oh)"), Gio.DBusCallFlags.NONE, 30000, None, None)
session, pipe = answer.unpack()[0], fds.get(0)
ended = []
bus.signal_subscribe(name, iface + ".Session", "Finished", session, None, Gio.DBusSignalFlags.NONE,
    lambda *args: ended.append(args[5].unpack()[0]))
def say(prompt):
    params = {"max_tokens": GLib.Variant("u", 12)}
    bus.call_sync(name, session, iface + ".Session", "Generate",
        GLib.Variant("(sa{sv})", (prompt, params)), None, Gio.DBusCallFlags.NONE, 30000, None)
    text = b""
    while chunk := os.read(pipe, 4096):
        text += chunk
    return text.decode("utf-8")
texts = [say("Once upon a time"), say("there was a server")]
while len(ended) < 2:
    GLib.MainContext.default().iteration(True)
bus.call_sync(name, session, iface + ".Session", "Close", None, None, Gio.DBusCallFlags.NONE, 30000, None)
print(json.dumps(texts + [ended[-1]]))
`;
