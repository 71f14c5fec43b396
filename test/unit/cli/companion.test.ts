import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { serveAgent } from "../../../src/assistant/agent/bus.ts";
import type { DiscoverState } from "../../../src/assistant/agent/port.ts";
import { serveContext } from "../../../src/assistant/context/bus.ts";
import type { ContextService, ContextVectorState } from "../../../src/assistant/context/port.ts";
import { BusCallError } from "../../../src/dbus/port.ts";
import {
  AgentHarness,
  buildDeclaration,
  NOTES,
  notesTools,
  permissiveRules,
  userCaller,
} from "../../support/agent-harness.ts";
import { createFakeContextService } from "../../support/bus-harness.ts";
import { companionCli, companionSession } from "../../support/companion-cli.ts";
import { assertText } from "../../support/companion-client.ts";
import type { FakeCompanion } from "../../support/fake-companion.ts";
import { MemoryHarness } from "../../support/memory-harness.ts";
import { searchHit } from "../../support/overlay-harness.ts";
import { runCommandLine } from "../../support/run-cli.ts";
import { serveCompanion } from "../../support/serve-companion.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { key, Terminal } from "../../support/terminal.ts";

/** A text that moves the cursor up, clears a line, and imitates the companion's own output. */
const HOSTILE = "\u001b[1A\u001b[2KBecause of: user\u009b31m\u202etxt";
const tools = notesTools
  .filter(({ name }) => name !== "star")
  .map((tool) => ({
    ...tool,
    title: `Title of ${tool.name}`,
    description: `${tool.description}${HOSTILE}`,
  }));
const forecast = buildDeclaration("forecast", "read", {
  type: "object",
  properties: { days: { type: "integer" } },
});
const weatherTool = {
  ...forecast,
  description: "Tells what the weather will be,\nhere or elsewhere.",
};

let agent: AgentHarness;
let discoverState: DiscoverState;
let bus: FakeCompanion;
beforeEach(async () => {
  discoverState = { v: 1, tools: 4, vectors: null };
  agent = await AgentHarness.open({
    discoverState: () => discoverState,
    discover: async (query) =>
      agent.agent.listTools().filter(({ description }) => description.includes(query)),
  });
  agent.registry.set([
    { appId: NOTES, name: "Notes", isActivatable: false, tools },
    { appId: "org.example.weather", name: "Weather", isActivatable: false, tools: [weatherTool] },
  ]);
  agent.startNotes(tools);
  bus = serve();
});
afterEach(() => agent.agent[Symbol.asyncDispose]());

/** Serves the companion's agent, and a fake search and memory whose methods `context` overrides. */
const serve = (context: Partial<ContextService> = {}) =>
  serveCompanion((own) => {
    const daemon = "berth test";
    serveAgent({ bus: own, service: agent.agent, daemon });
    serveContext({ bus: own, service: createFakeContextService(context), daemon });
  });

const { run, terminal } = companionCli(() => bus);
/** The calls that were requested, in order. */
const requests = () =>
  bus.calls.flatMap(({ member, args: [, tool, json, options] }) =>
    member === "RequestCall" ? [{ tool, args: JSON.parse(assertText(json)), options }] : [],
  );
const provenance = (...labels: string[]) =>
  ["provenance", { signature: "as", value: labels }] as const;

/** Matches control characters except tab and line feed, and the characters that change the direction of text. */
// oxlint-disable-next-line no-control-regex -- the pattern must match control characters
const controlCharacters = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E]/;

describe("tools in the command line", () => {
  it("are listed without the control characters in texts of apps", async () => {
    expect(await run(["tools"])).toEqual({
      code: 0,
      errors: "",
      output: [
        "APP                   TOOL       TIER          UNDO   DESCRIPTION",
        "org.example.notes     create     write         yes    Does create.?[1A?[2KBecause of: user?31m\\u{202e}txt",
        "org.example.notes     delete     destructive   no     Does delete.?[1A?[2KBecause of: user?31m\\u{202e}txt",
        "org.example.notes     list       read          no     Does list.?[1A?[2KBecause of: user?31m\\u{202e}txt",
        "org.example.weather   forecast   read          no     Tells what the weather will be, here or elsewhere.",
        "",
      ].join("\n"),
    });
  });

  it("are listed for one app, for a query, and as JSON without control characters", async () => {
    for (const flags of [["--json"], ["-o", "json"]]) {
      const weather = await run(["tools", "org.example.weather", ...flags]);
      expect(JSON.parse(weather.output)).toMatchObject([{ name: "forecast" }]);
    }
    const found = await run(["tools", "--find", "weather"]);
    expect(found.output.split("\n")).toHaveLength(3);
    expect(bus.calls.at(-1)).toEqual({ member: "Discover", args: ["weather"] });
    expect((await run(["tools", "--json"])).output).not.toMatch(controlCharacters);
    const none = await run(["tools", "org.example.nothing"]);
    expect([none.code, none.output]).toEqual([0, ""]);
    expect(none.errors).toContain("no app org.example.nothing");
  });

  it("are marked if the user has disabled them", async () => {
    agent.rules = { ...permissiveRules, disabledTools: new Set([`${NOTES}/list`]) };
    const { output } = await run(["tools", NOTES]);
    expect(output).toMatch(/^org\.example\.notes +list +read \(disabled\) +no /m);
    expect(output.match(/disabled/g)).toHaveLength(1);
    const completed = await run(["__complete", "--current", "", "--", "call", NOTES]);
    expect(completed.output).toContain("create");
    expect(completed.output).not.toContain("list");
  });

  it("are ranked by words, and by vectors if there is an embedding model, as --state shows", async () => {
    const show = (): Promise<{ code: number; output: string }> => run(["tools", "--state"]);
    expect((await show()).output).toBe("4 tools, ranked by words; there is no embedding model\n");
    discoverState = {
      v: 1,
      tools: 4,
      vectors: {
        model: `minilm${HOSTILE}`,
        embedded: 3,
        weight: 0.3,
        timeout_ms: 400,
        message: "the model minilm is late",
      },
    };
    const { output } = await show();
    expect(output).toMatch(
      /^4 tools, ranked by words with weight 1 and vectors with weight 0\.3; vectors 3 of 4 by minilm.*, for which a request waits at most 400 ms\nthe model minilm is late\n$/,
    );
    expect(output).not.toMatch(controlCharacters);
    expect(JSON.parse((await run(["tools", "--state", "--json"])).output)).toMatchObject({
      vectors: { weight: 0.3, timeout_ms: 400 },
    });
    expect((await run(["tools", "--state", "--find", "weather"])).code).toBe(2);
  });

  it("are approved by the digest of their definition", async () => {
    agent.startNotes([buildDeclaration("list", "read", { type: "object" })]);
    const list = ["call", NOTES, "list", "--provenance=user"];
    const refused = await run(list);
    expect(refused.code).toBe(5);
    const [digest = ""] =
      /(?<=berth tools approve org\.example\.notes list )[0-9a-f]{64}/.exec(refused.errors) ?? [];
    expect((await run(["tools", "approve", NOTES, "list", digest])).code).toBe(0);
    expect((await run(list)).code).toBe(0);
    const other = await run(["tools", "approve", NOTES, "list", "e".repeat(64)]);
    expect(other).toMatchObject({ code: 1, errors: expect.stringContaining("never seen") });
  });
});

it.each([
  [["tools"]],
  [["undo"]],
  [["search", "boiler"]],
  [["search", "--state"]],
  [["confirm", "--list"]],
  [["tools", "lint"]],
])("berth %j prints the same document with -o json as with --json", async (words) => {
  const [json, output] = [await run([...words, "--json"]), await run([...words, "-o", "json"])];
  expect(output).toEqual(json);
  expect(output.code).toBe(0);
  expect(JSON.parse(output.output)).toBeTypeOf("object");
  expect((await run([...words, "-o", "yaml"])).code).toBe(2);
});

describe("without a companion", () => {
  it("every command reports the problem and the next step", async () => {
    const noBusAtAll = await runCommandLine(["tools"], { environment: {} });
    expect(noBusAtAll.code).toBe(1);
    expect(noBusAtAll.errors).toMatch(
      /there is no session bus: neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set\ntry: .*enable-linger.*dbus-run-session/,
    );
    const noAnswer = await runCommandLine(["undo"], {
      environment: { XDG_RUNTIME_DIR: "/run/user/7" },
    });
    expect(noAnswer.errors).toContain("no bus answers at XDG_RUNTIME_DIR/bus");
    const strange = await run(["undo"], {
      openSessionBus: async () => {
        throw new BusCallError("org.freedesktop.DBus.Error.AuthFailed", "REJECTED EXTERNAL");
      },
    });
    expect(strange.errors).toContain("DBUS_SESSION_BUS_ADDRESS belongs to another user");
    bus.isRunning = false;
    for (const words of [
      ["tools"],
      ["call", "a", "b"],
      ["undo"],
      ["search", "x"],
      ["memory", "ls", "a"],
    ])
      expect(await run(words)).toEqual({
        code: 1,
        output: "",
        errors:
          "error: the companion does not run on this session bus\ntry:   start it with `berth assistant --user`\n",
      });
  });

  it.each([
    ["org.freedesktop.DBus.Error.NoReply", 3, "did not answer in time"],
    ["org.freedesktop.DBus.Error.AccessDenied", 1, "its own text"],
    ["org.freedesktop.DBus.Error.Spawn.ChildExited", 1, "could not be started"],
    ["org.freedesktop.DBus.Error.UnknownMethod", 1, "another version"],
    ["dev.assistant.Error.LedgerUnavailable", 1, "berth ledger verify --user"],
    ["com.example.Strange", 1, "its own text"],
  ])("%s makes the command exit with %i", async (name, code, text) => {
    bus.methods = {
      Undo: () => {
        throw new BusCallError(name, "its own text\nerror: \u001b[31mnot ours");
      },
    };
    const result = await run(["undo"]);
    expect(result.code).toBe(code);
    expect(result.errors).toContain(text);
    expect(result.errors).not.toMatch(controlCharacters);
    expect(result.errors).not.toMatch(/\nerror:/);
  });

  it("Ctrl-C ends the command with a note that the call may still be executed", async () => {
    bus.methods = { RequestCall: () => new Promise(() => {}) };
    let interrupt: (() => void) | undefined;
    const running = run(["call", NOTES, "list"], {
      onInterruptible: (listener) => {
        interrupt = listener;
      },
    });
    await expect.poll(() => bus.calls.length).toBe(1);
    interrupt?.();
    expect(await running).toMatchObject({
      code: 130,
      errors: expect.stringContaining("may still run to its end"),
    });
  });
});

describe("berth call without a terminal", () => {
  it("sends no provenance, and leaves a call that needs a confirmation waiting", async () => {
    const parked = await run(["call", NOTES, "create", "title=Milk"]);
    expect(parked.code).toBe(6);
    expect(parked.output).toBe(
      "call 1 waits for confirmation: berth confirm 1, or berth confirm 1 --decline\n",
    );
    expect(parked.errors).toContain("Because of:  unknown");
    expect(requests()).toEqual([{ tool: "create", args: { title: "Milk" }, options: new Map() }]);
    expect(agent.received).toBe(0);

    agent.app.respond = () => ({
      kind: "result",
      structured: { id: "n1" },
      content: [{ type: "text", text: `added note 1${HOSTILE}` }],
    });
    const confirmed = await run(["confirm", "1", "--yes"]);
    expect(confirmed).toEqual({
      code: 0,
      errors: "",
      output: "added note 1[1A[2KBecause of: user31m\\u{202e}txt\n",
    });
    expect(agent.app.received).toEqual([{ name: "create", args: { title: "Milk" } }]);
    const again = await run(["confirm", "1", "--decline"]);
    expect(again.code).toBe(0);
    expect(again.errors).toContain("was decided before");
    expect(agent.app.received).toHaveLength(1);
  });

  it("leaves a call waiting, which `berth confirm --decline` then declines", async () => {
    await run(["call", NOTES, "create", "title=Milk"]);
    expect(await run(["confirm", "1", "--decline"])).toEqual({
      code: 0,
      output: "call 1 is declined\n",
      errors: "",
    });
    expect((await run(["confirm", "99", "--yes"])).code).toBe(4);
  });

  it("confirms with --yes, and prints the whole result as JSON", async () => {
    const { code, output } = await run([
      "call",
      NOTES,
      "create",
      '{"title": "Milk"}',
      "--yes",
      "--json",
      "--provenance=user",
      "--provenance=file:list",
      "--actor=cron",
    ]);
    expect(code).toBe(0);
    expect(output).not.toMatch(controlCharacters);
    expect(JSON.parse(output)).toMatchObject({
      v: 1,
      call_id: 1,
      disposition: "confirm-modal",
      status: "executed",
      detail: { code: "ok", result: { id: "n1" } },
    });
    expect(requests()[0]?.options).toEqual(
      new Map<string, unknown>([
        provenance("user", "file:list"),
        ["actor", { signature: "s", value: "cron" }],
      ]),
    );
    const parked = await run(["call", NOTES, "create", "title=Milk", "--json"]);
    expect([parked.code, JSON.parse(parked.output)]).toMatchObject([
      6,
      { call_id: 2, status: "parked", disposition: "confirm-modal" },
    ]);
  });

  it("waits with --yes until the companion accepts the confirmation", async () => {
    const busy = new BusCallError("dev.assistant.Error.Busy", "it must be read first");
    const executed = ["executed", '{"code":"ok"}'];
    let answers = [busy, executed, busy, executed, busy, busy];
    bus.methods = {
      ...bus.methods,
      ListParked: () => ['[{"call_id": 1, "hold_ms": 1}]'],
      Confirm: () => {
        const answer = answers.shift();
        if (!Array.isArray(answer)) throw answer;
        return answer;
      },
    };
    const call = ["call", NOTES, "delete", "id=1", "--yes"];
    expect((await run(call)).code).toBe(0);
    expect((await run(["confirm", "1", "--yes"])).code).toBe(0);
    expect(await run(call)).toMatchObject({ code: 1, errors: "error: it must be read first\n" });
    answers = [];
  });

  it("reports that the call still waits if this client may not confirm it", async () => {
    agent.rules = { ...permissiveRules, confirm: "strict" };
    const { code, errors } = await run(["call", NOTES, "create", "title=Milk", "--yes"]);
    expect(code).toBe(1);
    expect(errors).toBe(
      "call 1 still waits for a client that may confirm it\nerror: the program that requested a call may not confirm it\n",
    );
  });

  it("reports why a call failed, and which arguments are invalid", async () => {
    expect(await run(["call", NOTES, "create", "body:=1"])).toEqual({
      code: 4,
      output: "",
      errors:
        "error: call 1 failed (invalid_args): /title: is missing, and 1 more\n  /title: is missing\n  /body: must be string\n",
    });
    const days = await run(["call", "org.example.weather", "forecast", "days=1", "place=2"]);
    expect(days.errors).toContain("/days: must be integer");
    expect(days.errors).toContain("\ntry:   days:=1 (:= gives JSON, = gives text)\n");
    for (const word of ["days=many", "days=true", "days:=true"]) {
      const other = await run(["call", "org.example.weather", "forecast", word]);
      expect([other.code, other.errors.includes("try:")]).toEqual([4, false]);
    }
    const unknown = await run(["call", "org.example.nothing", "x"]);
    expect(unknown).toMatchObject({ code: 4, errors: expect.stringContaining("`berth tools`") });
    const broken = await run(["call", NOTES, "create", "{title}"]);
    expect(broken).toMatchObject({ code: 4, errors: expect.stringContaining("bad_json") });
    const failed = await run(["call", NOTES, "delete", "id=1", "--yes"]);
    expect([failed.code, failed.output]).toEqual([4, ""]);
    expect(failed.errors).not.toMatch(controlCharacters);
  });

  describe("the arguments after the tool", () => {
    let folder: string;
    beforeEach(() => {
      folder = temporaryFolder("call");
      writeFileSync(join(folder, "note.json"), '{"title": "from a file"}');
    });

    it.each([
      [['{"title": "a"}'], { title: "a" }],
      [
        ["title=a=b", "count:=2", "on:=true", "at:=[1]"],
        { title: "a=b", count: 2, on: true, at: [1] },
      ],
      [["title=1"], { title: "1" }],
      [["title="], { title: "" }],
      [["-"], { title: "from input" }],
      [["@note.json"], { title: "from a file" }],
    ])("are passed to the tool: %j", async (words, args) => {
      const input = '{"title": "from input"}\n';
      await run(["call", NOTES, "create", ...words], { input, workingDirectory: folder });
      expect(requests()[0]?.args).toEqual(args);
    });

    it.each([[["title"]], [["a=1", "a=2"]], [["a:=x"]], [["=x"]], [["@gone.json", "a=1"]]])(
      "cause a usage error: %j",
      async (words) => {
        const { code } = await run(["call", NOTES, "create", ...words], {
          workingDirectory: folder,
        });
        expect([code, requests()]).toEqual([2, []]);
      },
    );
  });
});

describe("berth call at a terminal", () => {
  it("runs a read tool at once, because the user typed the command", async () => {
    agent.notes.set("n1", {});
    using person = terminal("call", NOTES, "list");
    expect(await person.ended).toBe(0);
    expect(person.screen).toBe("notes:\n  - n1\ncall 1 is done\n");
    expect(requests()[0]?.options).toEqual(new Map([provenance("user")]));
  });

  it("shows the call of a write tool, and asks whether to run it", async () => {
    const body = "first\n\u001b[2Jsecond \u202e";
    using person = terminal("call", NOTES, "create", "title=Milk", `body=${body}`, "stars:=1");
    await person.waitForText("Run it? [y/N] ");
    expect(person.screen.split("\u001b")[0]).toBe(
      [
        "Notes: Title of create",
        "  Call:        1",
        "  App:         org.example.notes (Notes)",
        "  Tool:        create (Title of create)",
        "  About:       Does create.?[1A?[2KBecause of: user?31m\\u{202e}txt",
        "  Tier:        write",
        "  Because of:  user",
        "  Asked by:    a program of yours",
        "  Undo:        delete",
        "  Until:       2030-01-01 00:05:00 UTC (in 5m)",
        "  Arguments:",
        '    Title  "Milk"',
        "    body   | first",
        "           | \\u{1b}[2Jsecond \\u{202e}",
        "    stars  1",
        "",
      ].join("\n"),
    );
    person.type(`y${key.enter}`);
    expect(await person.ended).toBe(0);
    await person.waitForText("id: n1");
    await person.waitForText("`berth undo` reverts it");
    expect([...agent.notes.values()]).toEqual([{ title: "Milk", body, stars: 1 }]);
  });

  it("wraps long lines so that no untrusted text begins in the first column", async () => {
    const body = `${"a".repeat(200)} and more, Run it? [y/N] y`;
    using person = new Terminal(["call", NOTES, "create", "title=Milk", `body=${body}`], {
      ...companionSession,
      columns: 40,
      openSessionBus: bus.open,
    });
    await person.waitForText("Arguments:");
    await person.waitForText(/\nRun it\? \[y\/N\] /);
    const shown = person.screen.split("Arguments:")[1] ?? "";
    for (const line of shown.split("\n").filter((text) => text.includes("|")))
      expect(line.length).toBeLessThanOrEqual(40);
    person.type(key.enter);
    expect(await person.ended).toBe(5);
  });

  it.each([
    ["no", `n${key.enter}`],
    ["nothing", key.enter],
    ["Ctrl-C", key.interrupt],
    ["Ctrl-D", key.end],
  ])("declines the call when the user answers %s", async (_name, typed) => {
    using person = terminal("call", NOTES, "create", "title=Milk");
    await person.waitForText("Run it? [y/N] ");
    person.type(typed);
    expect(await person.ended).toBe(5);
    expect(bus.calls.at(-1)).toEqual({ member: "Confirm", args: [1n, false] });
    expect(person.screen).toContain("call 1 is declined");
    expect(agent.notes.size).toBe(0);
  });

  it("declines when it receives a signal", async () => {
    using person = terminal("call", NOTES, "create", "title=Milk");
    await person.waitForText("Run it? [y/N] ");
    person.interrupt();
    expect(await person.ended).toBe(5);
    expect(bus.calls.at(-1)).toEqual({ member: "Confirm", args: [1n, false] });
  });

  it("asks the user to type the name of a tool that cannot be undone, and rejects another name", async () => {
    using person = terminal("call", NOTES, "delete", "id=1");
    await person.waitForText("not possible");
    await person.waitForText("Type the tool's name to run it, or press Enter to decline: ");
    person.type(`yes${key.enter}`);
    await person.waitForText("That is not delete.");
    person.type(`delete${key.enter}`);
    expect(await person.ended).toBe(4);
    expect(bus.calls.at(-1)).toEqual({ member: "Confirm", args: [1n, true] });
  });

  it("ignores input that the user typed before the question was visible", async () => {
    using person = terminal("call", NOTES, "delete", "id=1", "--provenance=file:list");
    await person.waitForText("the question follows in 1.5 s");
    person.type(`delete${key.enter}del`);
    await person.waitForText("or press Enter to decline: ");
    expect(bus.calls.map(({ member }) => member)).toEqual(["RequestCall"]);
    // The companion has its own virtual clock, which must also advance: it accepts no approval before the hold time has
    // passed on it.
    await agent.clock.advance(1_500);
    person.type(`delete${key.enter}`);
    expect(await person.ended).toBe(4);
  });

  it("stops asking when another client decides, and prints the result", async () => {
    using person = terminal("call", NOTES, "create", "title=Milk");
    await person.waitForText("Run it? [y/N] ");
    await agent.agent.confirm(1, true, userCaller());
    expect(await person.ended).toBe(0);
    await person.waitForText("Another client has decided: executed.");
    await person.waitForText("id: n1");
    expect(agent.notes.size).toBe(1);
  });

  it("stops asking when the call expires", async () => {
    using person = terminal("call", NOTES, "create", "title=Milk");
    await person.waitForText("Run it? [y/N] ");
    await agent.clock.advance(5 * 60_000);
    expect(await person.ended).toBe(5);
    await person.waitForText("The call has expired.");
    await person.waitForText("denied (expired)");
  });

  it("stops asking when the connection to the bus is lost", async () => {
    using person = terminal("call", NOTES, "create", "title=Milk");
    await person.waitForText("Run it? [y/N] ");
    bus.disconnect();
    expect(await person.ended).toBe(1);
    await person.waitForText("the connection to the session bus was lost");
  });

  it("leaves the call waiting if standard input has ended", async () => {
    using person = terminal("call", NOTES, "create", "-");
    person.type('{"title": "Milk"}');
    person[Symbol.dispose]();
    expect(await person.ended).toBe(6);
  });
});

describe("berth undo", () => {
  it("reports the undone call, and the number of calls that can still be undone", async () => {
    for (const title of ["Milk", "Eggs", "Salt"])
      await run(["call", NOTES, "create", `title=${title}`, "--yes"]);
    expect(await run(["undo"])).toEqual({
      code: 0,
      errors: "",
      output:
        'undone: call 3, org.example.notes create by delete {"id":"n3"}; 2 more can be undone\n',
    });
    agent.notes.delete("n2");
    expect(await run(["undo"])).toEqual({
      code: 4,
      output: "",
      errors:
        "error: call 2, org.example.notes create, could not be undone (tool_error): no such note\ntry:   `berth undo` again, or `berth undo --skip 2` to never undo it\n",
    });
    expect((await run(["undo", "--skip", "2"])).output).toBe(
      "skipped: call 2, org.example.notes create; 1 more can be undone\n",
    );
    expect(JSON.parse((await run(["undo", "--json"])).output)).toMatchObject({ status: "undone" });
    expect(await run(["undo"])).toEqual({
      code: 0,
      output: "there is nothing to undo\n",
      errors: "",
    });
    expect((await run(["undo", "--skip", "99"])).code).toBe(1);
  });

  it("skips a call whose undo has an unknown outcome, names it, and tries its undo again when its number is given", async () => {
    for (const title of ["Milk", "Eggs"])
      await run(["call", NOTES, "create", `title=${title}`, "--yes"]);
    agent.failNextCall("transport_closed");
    expect(await run(["undo"])).toEqual({
      code: 4,
      output: "",
      errors:
        "error: call 2, org.example.notes create, could not be undone (transport_closed): the app failed; it is unknown whether the call has taken effect\ntry:   check in the app if the call is undone: `berth undo 2` tries again, `berth undo --skip 2` to never undo it; `berth undo` goes on with the call before it\n",
    });
    const unknown =
      "It is unknown if call 2 is undone. `berth undo 2` tries again, `berth undo --skip 2` never undoes this call.\n";
    expect(await run(["undo"])).toEqual({
      code: 0,
      errors: unknown,
      output:
        'undone: call 1, org.example.notes create by delete {"id":"n1"}; nothing more can be undone\n',
    });
    expect(await run(["undo"])).toEqual({
      code: 0,
      output: "there is nothing to undo\n",
      errors: unknown,
    });
    expect(await run(["undo", "2"])).toMatchObject({
      code: 0,
      errors: "",
      output: expect.stringContaining("undone: call 2"),
    });
    expect((await run(["undo", "2"])).code).toBe(1);
    expect((await run(["undo", "2", "--skip", "2"])).code).toBe(2);
  });
});

describe("berth search", () => {
  let vectors: ContextVectorState | null = null;
  beforeEach(() => {
    vectors = null;
    const snippet = `The boiler was serviced in May.\nBoilers need${HOSTILE} it every year.`;
    const source = { documents: 2, skipped: 0, state: "ready", message: null } as const;
    const hit = searchHit({ title: "House", uri: "file:///home/me/Notes/house.md", snippet });
    bus = serve({
      search: async ({ query }) => (query.includes("boiler") ? [hit] : []),
      indexState: () => ({
        v: 1,
        state: "degraded",
        documents: 12,
        chunks: 30,
        sources: [
          { ...source, name: "notes", documents: 10 },
          { ...source, name: "work", state: "degraded", message: "too many folders to watch" },
        ],
        vectors,
      }),
    });
  });

  it("prints passages without control characters", async () => {
    const { code, output } = await run(["search", "the", "boiler"]);
    expect(code).toBe(0);
    expect(output).toBe(
      [
        "House",
        "  file:///home/me/Notes/house.md (notes)",
        "  The boiler was serviced in May. Boilers need?[1A?[2KBecause of: user?31m\\u{202e}txt it every year.",
        "",
      ].join("\n"),
    );
    expect(bus.calls[0]).toEqual({ member: "Search", args: ["the boiler", new Map()] });
  });

  it("highlights the search words at a terminal", async () => {
    const { output } = await run(["search", "boilers"], {
      columns: 30,
      environment: { DBUS_SESSION_BUS_ADDRESS: "unix:path=/fake" },
    });
    expect(output).toContain("\u001b[33mboiler\u001b");
    expect(output).toContain("\u001b[33mBoilers\u001b");
    expect(output).not.toContain("\u001b[33mMay");
  });

  it("sends its options, and reports if the ranking was lexical", async () => {
    const words = [
      "search",
      "boiler",
      "--hybrid",
      "--limit",
      "9",
      "--scope",
      "notes",
      "--scope",
      "x",
    ];
    const { errors } = await run(words);
    expect(bus.calls[0]?.args[1]).toEqual(
      new Map<string, unknown>([
        ["limit", { signature: "u", value: 9 }],
        ["hybrid", { signature: "b", value: true }],
        ["scopes", { signature: "as", value: ["notes", "x"] }],
      ]),
    );
    expect(errors).toContain("searched by words only: the companion has no embedding model");
    expect(JSON.parse((await run(["search", "boiler", "--json"])).output)).toHaveLength(1);
    expect(await run(["search", "nothing"])).toMatchObject({
      code: 0,
      output: "",
      errors: expect.stringContaining("--state"),
    });
    expect((await run(["search"])).code).toBe(2);
    expect((await run(["search", "x", "--limit", "51"])).code).toBe(2);
  });

  it("explains why a hybrid search has compared words only", async () => {
    const state = { model: "minilm", embedded: 120, passages: 301, message: null };
    vectors = state;
    const { errors } = await run(["search", "boiler", "--hybrid"]);
    expect(errors).toContain(
      "searched by words only: vectors 120 of 301 by minilm, but at least half of the passages need a vector",
    );
    vectors = { ...state, message: "the model minilm is late" };
    expect((await run(["search", "boiler", "--hybrid"])).errors).toContain(
      "words only: the model minilm is late",
    );
    expect((await run(["search", "--state"])).output).toMatch(
      /^degraded: 12 documents in 30 passages, vectors 120 of 301 by minilm\nthe model minilm is late\n/,
    );
  });

  it("shows the state of the index", async () => {
    expect((await run(["search", "--state"])).output).toBe(
      [
        "degraded: 12 documents in 30 passages",
        "",
        "SOURCE   DOCUMENTS   STATE      MESSAGE",
        "notes           10   ready      -",
        "work             2   degraded   too many folders to watch",
        "",
      ].join("\n"),
    );
  });
});

describe("berth memory", () => {
  let memory: MemoryHarness;
  beforeEach(() => {
    memory = new MemoryHarness();
    bus = serve({ memory: memory.memory });
  });

  it("sets, shows, lists and wipes values", async () => {
    expect((await run(["memory", "set", NOTES, "sort", "newest"])).output).toBe(
      "org.example.notes sort is set\n",
    );
    const draft = "one\n\u001b[31mtwo";
    await run(["memory", "set", NOTES, "draft", "-"], { input: `${draft}\n` });
    expect(bus.calls.at(-1)?.args).toEqual([NOTES, "draft", draft]);
    expect((await run(["memory", "get", NOTES, "draft"])).output).toBe(`${draft}\n`);
    expect((await run(["memory", "get", NOTES, "draft"], { columns: 80 })).output).toBe(
      "one\ntwo\n",
    );
    expect((await run(["memory", "ls", NOTES])).output).toBe(
      "KEY     VALUE\ndraft   one ?[31mtwo\nsort    newest\n",
    );
    expect(JSON.parse((await run(["memory", "ls", NOTES, "--json"])).output)).toEqual({
      sort: "newest",
      draft,
    });
    const missing = await run(["memory", "get", NOTES, "gone"]);
    expect(missing).toMatchObject({
      code: 1,
      output: "",
      errors: expect.stringContaining("no such key"),
    });
    expect((await run(["memory", "wipe", NOTES])).code).toBe(2);
    expect(memory.countItems()).toBe(2);
    expect((await run(["memory", "wipe", NOTES, "--yes"])).code).toBe(0);
    expect(memory.countItems()).toBe(0);
    expect((await run(["memory", "ls", NOTES])).errors).toContain("has no values");
  });

  it("lists the apps that have values", async () => {
    expect((await run(["memory", "ls"])).errors).toContain("no app has values");
    await run(["memory", "set", NOTES, "sort", "newest"]);
    expect((await run(["memory", "ls"])).output).toBe(
      "APP                 KEYS   SIZE\norg.example.notes      1   10 B\n",
    );
    expect(JSON.parse((await run(["memory", "ls", "-o", "json"])).output)).toEqual([
      { app: NOTES, keys: 1, bytes: 10 },
    ]);
  });

  it("asks for confirmation before a wipe at a terminal", async () => {
    await run(["memory", "set", NOTES, "sort", "newest"]);
    using no = terminal("memory", "wipe", NOTES);
    await no.waitForText("for good? [y/N] ");
    no.type(`n${key.enter}`);
    expect([await no.ended, memory.countItems()]).toEqual([1, 1]);
    using yes = terminal("memory", "wipe", NOTES);
    await yes.waitForText("for good? [y/N] ");
    yes.type(`y${key.enter}`);
    expect([await yes.ended, memory.countItems()]).toEqual([0, 0]);
  });
});

const complete = async (words: readonly string[], current = "") =>
  (await run(["__complete", "--current", current, "--", ...words])).output.split("\n");

describe("shell completion", () => {
  it("completes the apps and tools of a running companion", async () => {
    expect(await complete(["call"], "org.example.n")).toEqual([
      "org.example.notes\t3 tools",
      ":none",
      "",
    ]);
    expect(await complete(["call", NOTES], "c")).toEqual([
      "create\twrite: Does create.?[1A?[2KBecause of: user?31m\\u{202e}txt",
      ":none",
      "",
    ]);
    expect(await complete(["tools"], "o")).toHaveLength(4);
    expect(await complete(["tools"], "--f")).toEqual([
      expect.stringMatching(/^--find\t/),
      ":none",
      "",
    ]);
    expect(await complete(["memory", "wipe"], "org.example.w")).toHaveLength(3);
  });

  it("does not start a companion, and prints no errors if no companion runs", async () => {
    bus.isRunning = false;
    expect(await complete(["call"])).toEqual([":none", ""]);
    expect(bus.calls).toEqual([]);
  });
});
