import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { serveAgent } from "../../../src/assistant/agent/bus.ts";
import type { JsonObject } from "../../../src/assistant/agent/port.ts";
import { AgentHarness, userCaller } from "../../support/agent-harness.ts";
import { companionCli } from "../../support/companion-cli.ts";
import type { FakeCompanion } from "../../support/fake-companion.ts";
import { serveCompanion } from "../../support/serve-companion.ts";
import { key } from "../../support/terminal.ts";

let agent: AgentHarness;
let bus: FakeCompanion;
beforeEach(async () => {
  agent = await AgentHarness.open();
  bus = serveCompanion((own) =>
    serveAgent({ bus: own, service: agent.agent, daemon: "berth test" }),
  );
});
afterEach(() => agent.agent[Symbol.asyncDispose]());

const { run, terminal } = companionCli(() => bus);
/** Requests a call as another client; the call then waits for a confirmation. */
const ask = (tool: string, args: JsonObject) =>
  agent.request(tool, args, { provenance: undefined });
/** Declines a call as another client. */
const decline = (callId: number) => agent.agent.confirm(callId, false, userCaller());

describe("the list of waiting calls", () => {
  it("is printed as text or as JSON", async () => {
    await ask("create", { title: "Milk\u001b[2K" });
    await ask("delete", { id: "1" });
    expect(await run(["confirm", "--list"])).toEqual({
      code: 0,
      errors: "",
      output: [
        "CALL   APP                 TOOL     TIER          ENDS IN   ARGUMENTS",
        '   1   org.example.notes   create   destructive   5m        Title="Milk\\u001b[2K"',
        '   2   org.example.notes   delete   destructive   5m        id="1"',
        "",
      ].join("\n"),
    });
    const { output } = await run(["confirm", "--list", "--json"]);
    expect(JSON.parse(output)).toMatchObject([{ call_id: 1 }, { call_id: 2, args: { id: "1" } }]);
    await decline(1);
    await decline(2);
    expect(await run(["confirm", "--list"])).toEqual({
      code: 0,
      output: "",
      errors: "no call waits\n",
    });
    expect((await run(["confirm", "--list", "--json"])).output).toBe("[]\n");
  });

  it("supplies the call numbers for shell completion", async () => {
    await ask("create", { title: "Milk" });
    const { output } = await run(["__complete", "--current", "", "--", "confirm"]);
    expect(output).toBe("1\tNotes: create\n:none\n");
  });

  it("causes an error if the companion's answer has the form of another version", async () => {
    bus.methods = { ListParked: () => ['[{"call_id": "17"}]'] };
    expect(await run(["confirm", "--list"])).toMatchObject({
      code: 1,
      errors: expect.stringContaining("another version"),
    });
  });
});

describe("an invalid command line of berth confirm", () => {
  it.each([
    [["none"], "not the number"],
    [[], "needs the number"],
    [["--yes"], "needs the number"],
    [["17"], "no terminal"],
    [["17", "--yes", "--decline"], "exclude each other"],
    [["17", "--only", "--yes"], "cannot be combined with a number"],
    [["17", "--list"], "only be combined with --json"],
  ])("exits with a usage error: confirm %j", async (words, text) => {
    const { code, errors } = await run(["confirm", ...words]);
    expect([code, errors]).toEqual([2, expect.stringContaining(text)]);
    expect(bus.calls).toEqual([]);
  });
});

describe("at a terminal, berth confirm with a number", () => {
  it("shows the call before it asks, and runs the call if the user agrees", async () => {
    await ask("create", { title: "Milk" });
    using person = terminal("confirm", "1");
    await person.waitForText('Title  "Milk"');
    await person.waitForText("or press Enter to decline: ");
    expect(agent.notes.size).toBe(0);
    person.type(`create${key.enter}`);
    await person.waitForText("id: n1");
    expect(await person.ended).toBe(0);
  });

  it("declines if the user refuses", async () => {
    await ask("delete", { id: "1" });
    using person = terminal("confirm", "1");
    await person.waitForText("or press Enter to decline: ");
    person.type(key.enter);
    await person.waitForText("call 1 is declined; nothing was done");
    expect(await person.ended).toBe(5);
    expect(await run(["confirm", "--list"])).toMatchObject({ errors: "no call waits\n" });
  });

  it("runs the call without a question with --yes", async () => {
    await ask("create", { title: "Milk" });
    using person = terminal("confirm", "1", "--yes");
    expect(await person.ended).toBe(0);
    expect(person.screen).not.toContain("Title");
    expect([...agent.notes.values()]).toEqual([{ title: "Milk" }]);
  });

  it("prints the result of a call that is already decided, and never runs that call", async () => {
    await ask("create", { title: "Milk" });
    await decline(1);
    using person = terminal("confirm", "1");
    await person.waitForText("was decided before");
    await person.waitForText("call 1 is declined; nothing was done");
    expect(await person.ended).toBe(5);
    using nothing = terminal("confirm", "99");
    await nothing.waitForText("(unknown_call)");
    expect(await nothing.ended).toBe(4);
    expect(agent.notes.size).toBe(0);
  });
});

it("berth confirm runs no call whose details it could not show", async () => {
  bus.methods = { ...bus.methods, ListParked: () => ["[]"] };
  await ask("create", { title: "Milk" });
  using person = terminal("confirm", "1");
  expect(await person.ended).toBe(5);
  expect(agent.notes.size).toBe(0);
});

describe("at a terminal, berth confirm without a number", () => {
  it("shows the waiting calls, the oldest first, and then new ones, until Ctrl-C", async () => {
    await ask("create", { title: "Milk" });
    await ask("create", { title: "Eggs" });
    using person = terminal("confirm");
    await person.waitForText("2 calls wait now");
    await person.waitForText('"Milk"');
    await person.waitForText("or press Enter to decline: ");
    await ask("create", { title: "Salt" });
    await decline(1);
    await person.waitForText("Another client has decided: denied.");
    for (const title of ["Eggs", "Salt"]) {
      await person.waitForText(`"${title}"`);
      await person.waitForText("or press Enter to decline: ");
      person.type(`create${key.enter}`);
      await person.waitForText("id: n");
    }
    expect([...agent.notes.values()]).toEqual([{ title: "Eggs" }, { title: "Salt" }]);
    person.interrupt();
    expect(await person.ended).toBe(130);
  });

  it("can register as the only client that confirms calls", async () => {
    using person = terminal("confirm", "--only");
    await person.waitForText("No call waits now");
    await expect(agent.agent.registerConfirmer(userCaller())).rejects.toThrow(
      "has already registered",
    );
    person.interrupt();
    expect(await person.ended).toBe(130);
  });

  it("reports the loss of the connection to the bus", async () => {
    using person = terminal("confirm");
    await person.waitForText("Press Ctrl-C to quit");
    bus.disconnect();
    expect(await person.ended).toBe(1);
    expect(person.screen).toContain("the connection to the session bus was lost");
  });
});
