import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Screen } from "../support/screen.ts";
import { ScriptedAgent } from "../support/scripted-agent.ts";
import { serveScripted } from "../support/scripted-companion.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const NOTES = "org.example.Notes";
const program = join(import.meta.dirname, "../../bin/berth");
const interrupt = "\u0003";

let bus: TestSessionBus;
let agent: ScriptedAgent;
let companion: AsyncDisposable | undefined;
beforeAll(async () => {
  bus = await TestSessionBus.start();
});
afterAll(async () => {
  await companion?.[Symbol.asyncDispose]();
  await bus[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await companion?.[Symbol.asyncDispose]();
  agent = new ScriptedAgent();
  companion = await serveScripted(agent, bus.address);
});

const berth = (words: readonly string[], input = "") =>
  bus.run(process.execPath, [program, ...words], input);
const screen = (...words: string[]) => new Screen(words, bus.environment);

describe("the built command line on a real bus", () => {
  it("lists tools, and calls, parks, confirms and undoes calls", async () => {
    const listed = await berth(["tools"]);
    expect(listed).toMatchObject({ code: 0, stderr: "" });
    expect(listed.stdout).toMatch(/^org\.example\.Notes +add_note +write +yes +Keeps a note\.$/m);

    const parked = await berth(["call", NOTES, "add_note", "-", "--json"], '{"title": "Milk"}');
    expect(parked.code).toBe(6);
    expect(JSON.parse(parked.stdout)).toMatchObject({ call_id: 17, status: "parked" });
    expect(parked.stderr).toContain('TITLE  "Milk"');
    // A call without a terminal has no provenance.
    expect(agent.requests[0]?.options).toEqual({});

    const confirmed = await berth(["confirm", "17", "--yes"]);
    expect([confirmed.code, confirmed.stdout]).toEqual([0, expect.stringMatching(/^added note 1/)]);
    expect((await berth(["undo"])).stdout).toMatch(/^undone: call 17, /);
    expect(agent.notes.size).toBe(0);
  });

  it("passes the provenance to the companion, and exits with a code for the outcome of the call", async () => {
    const words = ["call", NOTES, "add_note", "title=Milk", "--yes", "--provenance", "file:a"];
    expect((await berth(words)).code).toBe(0);
    expect(agent.requests[0]?.options).toEqual({
      provenance: { signature: "as", value: ["file:a"] },
    });
    const failed = await berth(["call", NOTES, "delete_note", "id:=1", "--yes"]);
    expect([failed.code, failed.stdout]).toEqual([4, ""]);
    expect(failed.stderr).toContain("call 18 failed (tool_error)");
  });

  it("searches the user's data and stores memory", async () => {
    const { stdout } = await berth([
      "search",
      "boiler",
      "--limit",
      "2",
      "--hybrid",
      "--scope",
      "a",
    ]);
    expect(stdout).toMatch(/^House\n {2}file:\/\/\/home\/me\/Notes\/house\.md \(notes\)\n/);
    expect((await berth(["search", "--state"])).stdout).toMatch(/^degraded: 12 documents/);
    expect((await berth(["memory", "set", NOTES, "sort", "-"], "newest\n")).code).toBe(0);
    expect((await berth(["memory", "get", NOTES, "sort"])).stdout).toBe("newest\n");
    expect((await berth(["memory", "ls", NOTES, "--json"])).stdout).toBe(
      '{\n  "sort": "newest"\n}\n',
    );
    expect((await berth(["memory", "wipe", NOTES, "--yes"])).code).toBe(0);
    const missing = await berth(["memory", "get", NOTES, "sort"]);
    expect([missing.code, missing.stderr]).toEqual([
      1,
      "error: org.example.Notes has no such key\n",
    ]);
  });

  it("completes app ids and tool names", async () => {
    const { stdout } = await berth(["__complete", "--current", "add", "--", "call", NOTES]);
    expect(stdout).toBe("add_note\twrite: Keeps a note.\n:none\n");
  });

  it("reports that no companion or no session bus is running", async () => {
    await companion?.[Symbol.asyncDispose]();
    companion = undefined;
    const absent = await berth(["call", NOTES, "list_notes"]);
    expect([absent.code, absent.stderr]).toEqual([
      1,
      "error: the companion does not run on this session bus\ntry:   start it with `berth assistant --user`\n",
    ]);
    const gone = await bus.run("env", [
      "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent/bus",
      process.execPath,
      program,
      "tools",
    ]);
    expect(gone.code).toBe(1);
    expect(gone.stderr).toMatch(
      /no bus answers at DBUS_SESSION_BUS_ADDRESS\ntry: .*dbus-run-session/,
    );
  });
});

describe("at a real terminal", () => {
  it("asks for y if the disposition is confirm-chip, and runs the call", async () => {
    using person = screen("call", NOTES, "add_note", "title=Milk");
    const shown = await person.until(/Run it\? \[y\/N\] /);
    expect(shown).toMatch(/Because of: {2}user\r\n/);
    person.type("y\r");
    await person.until(/added note 1/);
    expect(await person.ended).toBe(0);
    expect([...agent.notes.values()]).toEqual(["Milk"]);
  });

  it("asks for the tool's name if the disposition is confirm-modal, after the hold time", async () => {
    agent.holdMs = 500;
    using person = screen("call", NOTES, "delete_note", "id:=1");
    await person.until(/the question follows in 0\.5 s/);
    person.type("delete_note\r");
    await person.until(/or press Enter to decline: /);
    person.type("delete_note\r");
    await person.until(/call 17 failed/);
    expect(await person.ended).toBe(4);
  });

  it("Ctrl-C declines the call, during the question and before it", async () => {
    for (const wait of [/Run it\? \[y\/N\] /, /Arguments:/]) {
      using person = screen("call", NOTES, "add_note", "title=Milk");
      await person.until(wait);
      person.type(interrupt);
      await person.until(/is declined; nothing was done/);
      expect(await person.ended).toBe(5);
    }
    expect(agent.notes.size).toBe(0);
  });

  it("stops asking when another frontend decides", async () => {
    using person = screen("call", NOTES, "add_note", "title=Milk");
    await person.until(/Run it\? \[y\/N\] /);
    agent.confirm(17n, false);
    await person.until(/Another client has decided: denied\./);
    expect(await person.ended).toBe(5);
  });

  it("shows calls of other programs, and decides about them", async () => {
    using person = screen("confirm");
    await person.until(/Press Ctrl-C to quit/);
    expect((await berth(["call", NOTES, "add_note", "title=Milk"])).code).toBe(6);
    await person.until(/TITLE {2}"Milk"/);
    await person.until(/or press Enter to decline: /);
    person.type("add_note\r");
    await person.until(/added note 1/);
    person.type(interrupt);
    expect(await person.ended).toBe(130);
  });
});
