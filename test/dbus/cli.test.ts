import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { serveAgent } from "../../src/assistant/agent/bus.ts";
import { type OpenBus, openBus } from "../../src/assistant/bus/open-bus.ts";
import { serveContext } from "../../src/assistant/context/bus.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { AgentHarness, NOTES, userCaller } from "../support/agent-harness.ts";
import { createFakeContextService } from "../support/bus-harness.ts";
import { MemoryHarness } from "../support/memory-harness.ts";
import { searchHit } from "../support/overlay-harness.ts";
import { Screen } from "../support/screen.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

const program = join(import.meta.dirname, "../../bin/berth");
const interrupt = "\u0003";

let bus: TestSessionBus;
let agent: AgentHarness;
let companion: OpenBus;
beforeAll(async () => {
  bus = await TestSessionBus.start();
});
afterAll(() => bus[Symbol.asyncDispose]());
beforeEach(async () => {
  agent = await AgentHarness.open();
  companion = await openBus({ address: bus.address, logger: silentLogger, clock: systemClock });
  const daemon = "berth test";
  serveAgent({ bus: companion, service: agent.agent, daemon });
  const context = createFakeContextService({
    search: async () => [searchHit()],
    memory: new MemoryHarness().memory,
  });
  serveContext({ bus: companion, service: context, daemon });
  for (const name of ["Agent1", "Context1"]) await companion.requestName(`dev.assistant.${name}`);
});
afterEach(async () => {
  await companion[Symbol.asyncDispose]();
  await agent.agent[Symbol.asyncDispose]();
});

const berth = (words: readonly string[], input = "") =>
  bus.run(process.execPath, [program, ...words], input);
const screen = (...words: string[]) => new Screen(words, bus.environment);

describe("the built command line on a real bus", () => {
  it("lists tools, requests a call that waits for confirmation, confirms it, and undoes it", async () => {
    const listed = await berth(["tools"]);
    expect(listed).toMatchObject({ code: 0, stderr: "" });
    expect(listed.stdout).toMatch(/^org\.example\.notes +create +write +yes +Does create\.$/m);

    const parked = await berth(["call", NOTES, "create", "-", "--json"], '{"title": "Milk"}');
    expect(parked.code).toBe(6);
    expect(JSON.parse(parked.stdout)).toMatchObject({ call_id: 1, status: "parked" });
    expect(parked.stderr).toContain('Title  "Milk"');
    // A call without a terminal has no provenance, which is shown as unknown.
    expect(parked.stderr).toContain("Because of:  unknown");

    const confirmed = await berth(["confirm", "1", "--yes"]);
    expect([confirmed.code, confirmed.stdout]).toEqual([0, "id: n1\n"]);
    expect((await berth(["undo"])).stdout).toMatch(/^undone: call 1, /);
    expect(agent.notes.size).toBe(0);
  });

  it("passes the provenance to the companion, and exits with a code for the outcome of the call", async () => {
    const words = ["call", NOTES, "create", "title=Milk", "--yes", "--provenance", "file:a"];
    const done = await berth(words);
    expect([done.code, agent.confirmationRequests[0]?.spec.chain]).toEqual([0, ["file:a"]]);
    const failed = await berth(["call", NOTES, "delete", "id=1", "--yes"]);
    expect([failed.code, failed.stdout]).toEqual([4, ""]);
    expect(failed.stderr).toContain("call 2 failed (tool_error)");
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
    expect(stdout).toMatch(/^Boiler\n {2}file:\/\/\/notes\/boiler\.md \(notes\)\n/);
    expect((await berth(["search", "--state"])).stdout).toMatch(/^empty: 0 documents/);
    expect((await berth(["memory", "set", NOTES, "sort", "-"], "newest\n")).code).toBe(0);
    expect((await berth(["memory", "get", NOTES, "sort"])).stdout).toBe("newest\n");
    expect((await berth(["memory", "ls", NOTES, "--json"])).stdout).toBe(
      '{\n  "sort": "newest"\n}\n',
    );
    expect((await berth(["memory", "wipe", NOTES, "--yes"])).code).toBe(0);
    const missing = await berth(["memory", "get", NOTES, "sort"]);
    expect([missing.code, missing.stderr]).toEqual([
      1,
      "error: the memory of org.example.notes has no such key\n",
    ]);
  });

  it("completes app ids and tool names", async () => {
    const { stdout } = await berth(["__complete", "--current", "cr", "--", "call", NOTES]);
    expect(stdout).toBe("create\twrite: Does create.\n:none\n");
  });

  it("reports that no companion or no session bus is running", async () => {
    await companion[Symbol.asyncDispose]();
    const absent = await berth(["call", NOTES, "list"]);
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

describe("the built command line at a real terminal", () => {
  it("asks the user to type y if the call's disposition is confirm-chip, and runs the call", async () => {
    using person = screen("call", NOTES, "create", "title=Milk");
    const shown = await person.until(/Run it\? \[y\/N\] /);
    expect(shown).toMatch(/Because of: {2}user\r\n/);
    person.type("y\r");
    await person.until(/id: n1/);
    expect(await person.ended).toBe(0);
    expect([...agent.notes.values()]).toEqual([{ title: "Milk" }]);
  });

  it("shows a call with the disposition confirm-modal for 1.5 s, and then asks the user to type the tool's name", async () => {
    using person = screen("call", NOTES, "delete", "id=1", "--provenance=file:a");
    await person.until(/the question follows in 1\.5 s/);
    await agent.clock.advance(1_500);
    person.type("delete\r");
    await person.until(/or press Enter to decline: /);
    person.type("delete\r");
    await person.until(/call 1 failed/);
    expect(await person.ended).toBe(4);
  });

  it("Ctrl-C declines the call, before and during the question", async () => {
    for (const wait of [/Run it\? \[y\/N\] /, /Arguments:/]) {
      using person = screen("call", NOTES, "create", "title=Milk");
      await person.until(wait);
      person.type(interrupt);
      await person.until(/is declined; nothing was done/);
      expect(await person.ended).toBe(5);
    }
    expect(agent.notes.size).toBe(0);
  });

  it("stops asking when another frontend decides", async () => {
    using person = screen("call", NOTES, "create", "title=Milk");
    await person.until(/Run it\? \[y\/N\] /);
    await agent.agent.confirm(1, false, userCaller());
    await person.until(/Another client has decided: denied\./);
    expect(await person.ended).toBe(5);
  });

  it("shows calls of other programs, and decides about them", async () => {
    using person = screen("confirm");
    await person.until(/Press Ctrl-C to quit/);
    expect((await berth(["call", NOTES, "create", "title=Milk"])).code).toBe(6);
    await person.until(/Title {2}"Milk"/);
    await person.until(/or press Enter to decline: /);
    person.type("create\r");
    await person.until(/id: n1/);
    person.type(interrupt);
    expect(await person.ended).toBe(130);
  });
});
