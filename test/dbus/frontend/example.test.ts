import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from "vitest";
import { buildDeclaration, NOTES } from "../../support/agent-harness.ts";
import { DbusNextFrontend } from "../../support/dbus-next-frontend.ts";
import { examplePath } from "../../support/example-app.ts";
import { runGiClient } from "../../support/gi-client.ts";
import { OverlayBusHarness } from "../../support/overlay-bus-harness.ts";
import {
  createCaller,
  type OverlayHarness,
  REMOTE_MODEL,
  searchHit,
  streamForever,
} from "../../support/overlay-harness.ts";
import { Screen } from "../../support/screen.ts";
import { says } from "../../support/scripted-service.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

const UI = "dev.assistant.Overlay1.UI";
const UI_PATH = "/dev/assistant/Overlay1/UI";
const program = examplePath("terminal-frontend/frontend.mjs");
const interrupt = "\u0003";

let companion: OverlayBusHarness;
let parts: OverlayHarness;
let respond: MockInstance<OverlayHarness["overlay"]["respond"]>;
beforeEach(async () => {
  companion = await OverlayBusHarness.start();
  parts = companion.parts;
  respond = vi.spyOn(parts.overlay, "respond");
});
afterEach(() => companion[Symbol.asyncDispose]());

const run = (...words: string[]) => companion.bus.run(process.execPath, [program, ...words]);
const screen = (...words: string[]) => new Screen(words, companion.bus.environment, program);
/** Returns the user's decisions that the companion has received: true for each approval. */
const responses = () => respond.mock.calls.map(([, isApproved]) => isApproved);
const isWindowVisible = () => companion.bus.busctlCall(UI, UI_PATH, UI, "GetVisible");

describe("the command ask of the example frontend", () => {
  it("streams an answer, and lists its sources", async () => {
    parts.hits = async () => [searchHit({ title: "House\u001b[2J" })];
    parts.inference.script = (request) => says(request, ["In \u001b[31m", "May."]);
    expect(await run("ask", "--my-stuff", "--model", "small", "When", "was", "it?")).toEqual({
      code: 0,
      stdout: "In [31mMay.\n",
      stderr: "  from House[2J\n",
    });
    // Only the lane `agent` offers tools to the model.
    expect(parts.passTurns).toMatchObject([{ prompt: "When was it?" }]);
    expect(parts.searches).toEqual(["When was it?"]);
    expect(parts.inference.requests).toMatchObject([{ model: "small" }]);
  });

  it("declines a question if there is no terminal to show it on, and reports errors by their names", async () => {
    const denied = await run("ask", "--model", REMOTE_MODEL, "Well?");
    expect([denied.code, denied.stdout, responses()]).toEqual([1, "", [false]]);
    expect(denied.stderr).toContain("denied (declined): the user declined");
    await companion.disconnect();
    const absent = await run("ask", "Well?");
    expect([absent.code, absent.stderr]).toEqual([
      1,
      expect.stringMatching(/^error: org\.freedesktop\.DBus\.Error\.ServiceUnknown: /),
    ]);
    expect((await run("ask")).code).toBe(2);
  });

  it("asks the user before data is sent to a provider, and before a tool is called", async () => {
    parts.hits = async () => [searchHit()];
    using consent = screen("ask", "--my-stuff", "--model", REMOTE_MODEL, "Well?");
    expect(await consent.until(/Send it, this once\? \[y\/N\] /)).toContain('"prompt","files"');
    consent.type("y\r");
    await consent.until(/Hello there/);
    expect(await consent.ended).toBe(0);

    const { notes, clock } = await parts.useTools([["delete", { id: "n1" }]]);
    notes.set("n1", { title: "Milk" });
    using call = screen("ask", "--my-stuff", "No milk please");
    await call.until(/A tool would be called/);
    call.type("delete\r"); // The hold time has not passed.
    expect(await call.until(/anything else declines: /)).toContain('id: "n1"');
    expect([responses(), notes.size]).toEqual([[true], 1]);
    // The companion and the example have separate virtual clocks, which must both advance: the companion accepts no
    // approval before the hold time has passed on its own clock.
    await Promise.all([parts.clock.advance(1_500), clock.advance(1_500)]);
    call.type("delete\r");
    expect(await call.ended).toBe(0);
    expect([responses(), notes.size]).toEqual([[true, true], 0]);
  });

  it("escapes text that a terminal would interpret", async () => {
    const evil = "\u001b[2J\u009b2J\u202e\n";
    parts.hits = async () => [searchHit({ title: evil })];
    const consent = await run("ask", "--my-stuff", "--model", `${REMOTE_MODEL}${evil}`, "Well?");
    const agent = await parts.useTools([["create", { a: evil }]]);
    const schema = { type: "object", properties: { a: { type: "string", title: `A${evil}B` } } };
    const tools = [buildDeclaration("create", "write", schema)];
    agent.registry.set([{ appId: NOTES, name: "Notes", isActivatable: false, tools }]);
    const call = await run("ask", "Well?");
    expect(call.stderr).toContain("  A[2J2J B: ");
    // oxlint-disable-next-line no-control-regex -- it is control characters that have to be found
    for (const { stderr } of [consent, call])
      expect(stderr.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202a-\u202e]/u);
    expect(consent.stderr).toContain("sources: ");
    expect(call.stderr.split("\n")).toHaveLength(10);
  });

  it("withdraws a question that another frontend has answered", async () => {
    using person = screen("ask", "--model", REMOTE_MODEL, "Well?");
    await person.until(/this once\? \[y\/N\] /);
    parts.overlay.respond(1, true, createCaller(":1.8"));
    await person.until(/Hello there/);
    expect([await person.ended, responses()]).toEqual([0, [true]]);
  });

  it("Ctrl-C cancels the query", async () => {
    parts.inference.script = streamForever;
    using person = screen("ask", "Well?");
    await person.until(/so/);
    person.type(interrupt);
    await person.until(/cancelled \(cancelled\): the query was cancelled/);
    expect(await person.ended).toBe(1);
  });

  it("exits when the companion exits", async () => {
    parts.inference.script = streamForever;
    using person = screen("ask", "Well?");
    await person.until(/so/);
    await companion.disconnect();
    // Before the companion leaves the bus, it may report that the query is cancelled, so the test accepts both outputs.
    await person.until(
      /error: the companion, or the session bus, has gone|cancelled \(cancelled\)/,
    );
    expect(await person.ended).toBe(1);
  });
});

describe("the command chat of the example frontend", () => {
  it("sends the history of the chat, and exits on Ctrl-D", async () => {
    parts.consent.set("prompt", true);
    using person = screen("chat", "--model", REMOTE_MODEL);
    await person.until(/> /);
    person.type("One\r");
    await person.until(/Hello there\r\n[^H]*> /);
    person.type("Two\r");
    await person.until(/Hello there\r\n[^H]*> /);
    expect(parts.inference.requests.at(-1)?.model).toBe(REMOTE_MODEL);
    expect(parts.lastMessages).toEqual([
      { role: "user", content: "One" },
      { role: "assistant", content: "Hello there" },
      { role: "user", content: "Two" },
    ]);
    person.type("\u0004");
    expect(await person.ended).toBe(0);
  });

  it("is summoned by the bus as the frontend: it shows the prompt of the call Summon, but does not send it", async () => {
    using person = screen("chat");
    await person.until(/> /);
    expect(await isWindowVisible()).toEqual([true]);
    expect(await runGiClient(companion.bus, "signatures", UI, UI_PATH)).toMatchObject({
      interfaces: {
        [UI]: {
          methods: { Summon: "sa{sv} -> ", Hide: " -> ", GetVisible: " -> b" },
          signals: {},
          properties: {},
        },
      },
    });
    expect(await companion.bus.gdbusIntrospect(UI, "/dev/assistant")).toContain(
      '<node name="Overlay1"',
    );
    await parts.overlay.hide();
    expect(await isWindowVisible()).toEqual([false]);
    await parts.overlay.summon("Name three\u001b[2J rivers");
    await person.until(/Name three\[2J rivers/);
    expect(await isWindowVisible()).toEqual([true]);
    expect(parts.inference.requests).toEqual([]);
    person.type("\r");
    await person.until(/Hello there/);
    expect(parts.lastQuestion).toBe("Name three[2J rivers");
    using second = screen("chat");
    await second.until(/another frontend runs already/);
    expect(await second.ended).toBe(1);
  });

  it("shows a prompt of several lines from Summon as one line, and never uses it as the answer to a question", async () => {
    parts.consent.set("prompt", true);
    using person = screen("chat", "--model", REMOTE_MODEL);
    await person.until(/> /);
    await parts.overlay.summon("Name\r\nthree\nrivers\n");
    await person.until(/Name +three rivers/);
    person.type("\r");
    await person.until(/Hello there\r\n[^H]*> /);
    expect(parts.lastQuestion.trim()).toBe("Name three rivers");
    parts.consent.set("prompt", false);
    person.type("Well?\r");
    await person.until(/this once\? \[y\/N\] /);
    await parts.overlay.summon("y\n");
    await parts.overlay.summon("yes");
    person.type("\r");
    await person.until(/denied \(declined\)[\s\S]*> .*yes/);
    expect(responses()).toEqual([false]);
  });

  it("shows a question about another program's query only after the user has answered its own question", async () => {
    using person = screen("chat", "--model", REMOTE_MODEL);
    await person.until(/> /);
    person.type("Well?\r");
    await person.until(/this once\? \[y\/N\] /);
    await using other = await DbusNextFrontend.connect(companion.bus);
    await other.ask("Hm", { model_hint: "remote:cloud:other" });
    // The companion sends the question of the second query to the example and to the other frontend.
    await vi.waitUntil(
      () => parts.events.filter(({ kind }) => kind === "needed").length === 3,
      WAIT_OPTIONS,
    );
    person.type("y\r");
    await person.until(/Hello there[\s\S]*"other"[\s\S]*this once\? \[y\/N\] /);
    person.type("n\r");
    await person.until(/> /);
    expect(responses()).toEqual([true, false]);
  });

  it("shows a question about another program's query, and keeps the text that the user is typing", async () => {
    using person = screen("chat");
    await person.until(/> /);
    person.type("half a quest");
    await person.until(/quest/);
    await using other = await DbusNextFrontend.connect(companion.bus);
    await other.ask("Hm", { model_hint: REMOTE_MODEL });
    await person.until(/this once\? \[y\/N\] /);
    person.type("y\r");
    await person.until(/> .*half a quest/);
    expect(responses()).toEqual([true]);
  });
});
