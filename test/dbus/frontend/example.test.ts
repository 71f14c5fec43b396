import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { assertText } from "../../support/companion-client.ts";
import { examplePath } from "../../support/example-app.ts";
import { Screen } from "../../support/screen.ts";
import { serveInterfaces } from "../../support/scripted-companion.ts";
import { callSpec, consentSpec, ScriptedOverlay } from "../../support/scripted-overlay.ts";
import { TestSessionBus } from "../../support/test-session-bus.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

const OVERLAY = "dev.assistant.Overlay1";
const UI = "dev.assistant.Overlay1.UI";
const UI_PATH = "/dev/assistant/Overlay1/UI";
const program = examplePath("terminal-frontend/frontend.mjs");
const interrupt = "\u0003";

let bus: TestSessionBus;
let overlay: ScriptedOverlay;
let companion: AsyncDisposable | undefined;
beforeAll(async () => {
  bus = await TestSessionBus.start();
});
afterAll(async () => {
  await bus[Symbol.asyncDispose]();
});
beforeEach(async () => {
  overlay = new ScriptedOverlay();
  companion = await serveInterfaces(bus.address, [
    { interface: OVERLAY, name: OVERLAY, scripted: overlay },
  ]);
});
afterEach(async () => {
  await companion?.[Symbol.asyncDispose]();
  companion = undefined;
});

const run = (...words: string[]) => bus.run(process.execPath, [program, ...words]);
const screen = (...words: string[]) => new Screen(words, bus.environment, program);
const lastTurn = () => overlay.turns.at(-1);
/** Calls a method of the frontend's window, as the companion does. */
const callWindow = (member: string, signature = "", ...args: string[]) =>
  bus.busctlCall(UI, UI_PATH, UI, member, signature, ...args);
const askQuestion = (spec: object) => {
  overlay.script = async (asked) => {
    const isApproved = await asked.confirm(spec);
    if (isApproved) asked.token("Done.");
    asked.finish(isApproved ? "completed" : "denied", { code: "declined", message: "no" });
  };
};

describe("the example's command ask", () => {
  it("streams an answer, and lists its sources", async () => {
    overlay.script = (asked) => {
      asked.started({ sources: [{ title: "House\u001b[2J", uri: "file:///a" }] });
      asked.token("In \u001b[31m");
      asked.token("May.");
      asked.finish();
    };
    expect(await run("ask", "--my-stuff", "--model", "small", "When", "was", "it?")).toEqual({
      code: 0,
      stdout: "In [31mMay.\n",
      stderr: "  from House[2J\n",
    });
    expect(lastTurn()?.prompt).toBe("When was it?");
    expect(Object.fromEntries(lastTurn()?.options ?? [])).toEqual({
      lane: { signature: "s", value: "agent" },
      my_stuff: { signature: "b", value: true },
      model_hint: { signature: "s", value: "small" },
    });
  });

  it("declines a question if there is no terminal to show it on, and reports errors by their names", async () => {
    askQuestion(consentSpec());
    const denied = await run("ask", "Well?");
    expect([denied.code, denied.stdout, overlay.responses]).toEqual([1, "", [false]]);
    expect(denied.stderr).toContain("denied (declined): no");
    await companion?.[Symbol.asyncDispose]();
    companion = undefined;
    const absent = await run("ask", "Well?");
    expect([absent.code, absent.stderr]).toEqual([
      1,
      expect.stringMatching(/^error: org\.freedesktop\.DBus\.Error\.ServiceUnknown: /),
    ]);
    expect((await run("ask")).code).toBe(2);
  });

  it("asks the user before data is sent to a provider, and before calls", async () => {
    askQuestion(consentSpec());
    using consent = screen("ask", "Well?");
    expect(await consent.until(/Send it, this once\? \[y\/N\] /)).toContain('"prompt","files"');
    consent.type("y\r");
    await consent.until(/Done\./);
    expect(await consent.ended).toBe(0);

    askQuestion(callSpec({ tiers: { declared: "write", effective: "destructive" }, hold_ms: 300 }));
    using call = screen("ask", "Milk please");
    await call.until(/A tool would be called/);
    call.type("add_note\r"); // The hold time has not passed.
    expect(await call.until(/anything else declines: /)).toContain('Title: "Milk"');
    expect(overlay.responses).toEqual([true]);
    call.type("add_note\r");
    expect(await call.ended).toBe(0);
    expect(overlay.responses).toEqual([true, true]);
  });

  it("escapes text that a terminal would interpret", async () => {
    const evil = "\u001b[2J\u009b2J\u202e\n";
    askQuestion(consentSpec({ model: evil, sources: [{ title: evil }] }));
    const consent = await run("ask", "Well?");
    askQuestion(callSpec({ diff: [{ path: "/a", label: `A${evil}B`, value: evil }] }));
    const call = await run("ask", "Well?");
    expect(call.stderr).toContain("  A[2J2J B: ");
    // oxlint-disable-next-line no-control-regex -- it is control characters that have to be found
    for (const { stderr } of [consent, call])
      expect(stderr.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202a-\u202e]/u);
    expect(call.stderr.split("\n")).toHaveLength(11);
  });

  it("withdraws a question that another frontend has answered", async () => {
    askQuestion(consentSpec());
    using person = screen("ask", "Well?");
    await person.until(/this once\? \[y\/N\] /);
    lastTurn()?.respond(true);
    await person.until(/Done\./);
    expect([await person.ended, overlay.responses]).toEqual([0, []]);
  });

  it("Ctrl-C cancels the query", async () => {
    overlay.script = async (asked) => {
      asked.token("Half");
      await asked.untilCancelled();
      asked.finish("cancelled", { code: "cancelled", message: "it was" });
    };
    using person = screen("ask", "Well?");
    await person.until(/Half/);
    person.type(interrupt);
    await person.until(/cancelled \(cancelled\): it was/);
    expect(await person.ended).toBe(1);
  });

  it("exits when the companion exits", async () => {
    overlay.script = (asked) => asked.token("Half");
    using person = screen("ask", "Well?");
    await person.until(/Half/);
    await companion?.[Symbol.asyncDispose]();
    companion = undefined;
    await person.until(/error: the companion, or the session bus, has gone/);
    expect(await person.ended).toBe(1);
  });
});

describe("the example's command chat", () => {
  it("sends the history of the chat, and exits on Ctrl-D", async () => {
    using person = screen("chat", "--model", "remote:openrouter:a");
    await person.until(/> /);
    person.type("One\r");
    await person.until(/Hello there\r\n[^H]*> /);
    person.type("Two\r");
    await person.until(/Hello there\r\n[^H]*> /);
    expect(lastTurn()?.option("lane")).toBe("chat");
    expect(lastTurn()?.option("model_hint")).toBe("remote:openrouter:a");
    expect(JSON.parse(assertText(lastTurn()?.option("history_json")))).toEqual([
      { role: "user", content: "One" },
      { role: "assistant", content: "Hello there" },
    ]);
    person.type("\u0004");
    expect(await person.ended).toBe(0);
  });

  it("acts as the frontend: when summoned, it shows the prompt, and does not send it", async () => {
    using person = screen("chat");
    await person.until(/> /);
    expect(await callWindow("GetVisible")).toEqual([true]);
    await callWindow("Hide");
    expect(await callWindow("GetVisible")).toEqual([false]);
    await callWindow("Summon", "sa{sv}", "Name three\u001b[2J rivers", "0");
    await person.until(/Name three\[2J rivers/);
    expect(await callWindow("GetVisible")).toEqual([true]);
    expect(overlay.turns).toEqual([]);
    person.type("\r");
    await person.until(/Hello there/);
    expect(lastTurn()?.prompt).toBe("Name three[2J rivers");
    using second = screen("chat");
    await second.until(/another frontend runs already/);
    expect(await second.ended).toBe(1);
  });

  it("shows a summoned prompt of several lines as one line, and never as an answer to a question", async () => {
    using person = screen("chat");
    await person.until(/> /);
    await callWindow("Summon", "sa{sv}", "Name\r\nthree\nrivers\n", "0");
    await person.until(/Name +three rivers/);
    person.type("\r");
    await person.until(/Hello there\r\n[^H]*> /);
    expect(overlay.turns.map(({ prompt }) => prompt.trim())).toEqual(["Name three rivers"]);
    askQuestion(consentSpec());
    person.type("Well?\r");
    await person.until(/this once\? \[y\/N\] /);
    await callWindow("Summon", "sa{sv}", "y\n", "0");
    await callWindow("Summon", "sa{sv}", "yes", "0");
    person.type("\r");
    await person.until(/denied \(declined\)[\s\S]*> .*yes/);
    expect(overlay.responses).toEqual([false]);
  });

  it("keeps its own question open, and shows the question of another program's query afterwards", async () => {
    using person = screen("chat");
    await person.until(/> /);
    askQuestion(consentSpec());
    person.type("Well?\r");
    await person.until(/this once\? \[y\/N\] /);
    askQuestion(consentSpec({ model: "other" }));
    const path = `/${OVERLAY.replaceAll(".", "/")}`;
    await bus.busctlCall(OVERLAY, path, OVERLAY, "Ask", "sa{sv}", "Hm", "0");
    await vi.waitUntil(() => overlay.turns.length === 2, WAIT_OPTIONS);
    await bus.busctlCall(OVERLAY, path, OVERLAY, "GetStatus");
    person.type("y\r");
    await person.until(/Done\.[\s\S]*"other"[\s\S]*this once\? \[y\/N\] /);
    person.type("n\r");
    await person.until(/> /);
    expect(overlay.responses).toEqual([true, false]);
  });

  it("asks the user a question of another program's query, and keeps the text that is being typed", async () => {
    using person = screen("chat");
    await person.until(/> /);
    person.type("half a quest");
    await person.until(/quest/);
    askQuestion(consentSpec());
    const other = await bus.busctlCall(
      OVERLAY,
      `/${OVERLAY.replaceAll(".", "/")}`,
      OVERLAY,
      "Ask",
      "sa{sv}",
      "Hm",
      "0",
    );
    expect(other).toEqual([Number(lastTurn()?.id)]);
    await person.until(/this once\? \[y\/N\] /);
    person.type("y\r");
    await person.until(/> .*half a quest/);
    expect(overlay.responses).toEqual([true]);
  });
});
