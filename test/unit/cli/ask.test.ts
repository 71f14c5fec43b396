import { describe, expect, it } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import { FakeCompanion } from "../../support/fake-companion.ts";
import { OverlayCli } from "../../support/overlay-cli.ts";
import {
  REMOTE_MODEL,
  searchHit,
  streamForever,
  textEvent,
} from "../../support/overlay-harness.ts";
import { accepted, forever, says } from "../../support/scripted-service.ts";
import { key } from "../../support/terminal.ts";

const house = searchHit({ title: "House\u001b[2J", uri: "file:///home/me/house.md" });

const cli = new OverlayCli();
const { run, terminal } = cli;

/** Serves a fake companion of another version, which asks a question with the fields `spec` and denies the query. */
function serveForeignQuestion(spec: object): void {
  const peer = new FakeCompanion({
    Ask: () => {
      peer.emit("ConfirmationNeeded", 7n, JSON.stringify(spec));
      return [7n];
    },
    Respond: () => {
      peer.emit("Finished", 7n, "denied", "{}");
      return [];
    },
  });
  cli.bus = peer;
}

describe("berth ask", () => {
  it("sends the user's answer with the number of the question, and shows the recipient and the data", async () => {
    cli.overlay.providers.set("cloud", "https://evil\u009b.example/v1");
    await cli.overlay.useTools([["list", {}]]);
    using person = terminal("ask", "-m", REMOTE_MODEL, "Well?");
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(`y${key.enter}`);
    await person.waitForText("cloud (https://evil");
    await person.waitForText(/Results of: +org\.example\.notes list/);
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(key.enter);
    expect(await person.ended).toBe(5);
    expect(person.screen).not.toContain("\u009b");
    expect(cli.responses).toEqual([
      [1, true],
      [2, false],
    ]);
  });

  it.each([-1, 1.5, 2 ** 32, "2", null])(
    "declines a question whose number %j is invalid, and sends no number back",
    async (question) => {
      serveForeignQuestion({ kind: "consent", question });
      expect((await run(["ask", "Well?"])).code).toBe(5);
      expect(cli.responses).toEqual([[false]]);
    },
  );

  it("declines a question of an unknown kind", async () => {
    serveForeignQuestion({ v: 2, kind: "payment" });
    using person = terminal("ask", "Well?");
    await person.waitForText("does not know");
    expect([await person.ended, cli.responses]).toEqual([5, [[false]]]);
  });

  it("marks the lines of an answer that look like its questions", async () => {
    cli.overlay.inference.script = (request) =>
      says(request, ["Well.\nSend it, this ", "once? [y/N] y"]);
    using person = terminal("ask", "Well?");
    expect(await person.ended).toBe(0);
    expect(person.screen).toContain("Well.\n| Send it, this once? [y/N] y\n");
  });

  it("prints only the answer on standard output, and its sources on standard error", async () => {
    cli.overlay.hits = async () => [{ ...house, provenance: "user" }];
    cli.overlay.inference.script = (request) => says(request, ["In \u001b[31mMay."]);
    await cli.overlay.useTools([["list", {}]]);
    const asked = await run(["ask", "--my-stuff", "When", "was", "it?"]);
    expect(asked).toEqual({
      code: 0,
      output: "In [31mMay.\n",
      errors: [
        "Sources: House?[2J (notes) file:///home/me/house.md",
        "Tool:    org.example.notes list (executed)",
        "",
      ].join("\n"),
    });
    expect(cli.queries).toEqual([
      [
        "When was it?",
        new Map([
          ["lane", { signature: "s", value: "agent" }],
          ["my_stuff", { signature: "b", value: true }],
        ]),
      ],
    ]);
    cli.overlay.localModel = undefined;
    expect((await run(["ask", "When?"])).errors).toBe("Without: tools\n");
  });

  it("searches only the scopes that --scope names, which implies --my-stuff", async () => {
    cli.overlay.hits = async () => [house];
    const { code, errors } = await run(["ask", "--scope", "home", "--scope", "work", "When?"]);
    expect([code, cli.overlay.searchedScopes]).toEqual([0, [["home", "work"]]]);
    expect(errors).toContain("Sources: House");
  });

  it("sends the id of the selected model, and appends standard input to the question", async () => {
    cli.overlay.consent.set("prompt", true);
    await run(["ask", "-m", REMOTE_MODEL, "Is this right?"], { input: "a diff\n" });
    expect([cli.overlay.lastQuestion, cli.lastModel]).toEqual([
      "Is this right?\n\na diff",
      REMOTE_MODEL,
    ]);
    await run(["ask", "-"], { input: "all of it" });
    expect([cli.overlay.lastQuestion, cli.lastModel]).toEqual(["all of it", undefined]);
    expect((await run(["ask", "-"])).code).toBe(2);
  });

  it("prints all information as JSON, without control characters", async () => {
    cli.overlay.hits = async () => [house];
    cli.overlay.inference.script = (request) => says(request, ["May\u009b31m"]);
    const { code, output, errors } = await run(["ask", "--my-stuff", "-o", "json", "When?"]);
    expect([code, errors]).toEqual([0, ""]);
    expect(output).not.toContain("\u009b");
    expect(JSON.parse(output)).toMatchObject({
      v: 1,
      status: "completed",
      answer: "May\u009b31m",
      meta: { route: "local", sources: [{ title: "House\u001b[2J", uri: house.uri }] },
      detail: { code: "ok", finish_reason: "stop" },
    });
  });

  it.each([
    ["unauthorized", "the key is refused", "berth remote key ID"],
    ["no_model", "there is no model", "berth models start NAME"],
    ["no_model", "the system instance does not answer at http://a:7777", "berth status"],
  ] as const)("that fails with %s reports the reason", async (code, message, hint) => {
    cli.overlay.inference.script = async function* () {
      yield accepted;
      yield textEvent("Half an ans");
      throw new AssistantError(code, message);
    };
    const result = await run(["ask", "Well?"]);
    expect(result).toMatchObject({ code: 4, output: "Half an ans\n" });
    expect(result.errors).toContain(`error: ${message}\n`);
    expect(result.errors).toContain(hint);
    const json = await run(["ask", "Well?", "--json"]);
    expect(json.code).toBe(4);
    expect(JSON.parse(json.output)).toMatchObject({ status: "failed", detail: { code, message } });
  });

  it("reports that the companion is shutting down", async () => {
    for (const flags of [[], ["--json"]]) {
      cli.start();
      cli.overlay.inference.script = async function* (_, signal) {
        yield accepted;
        yield textEvent("Half an ans");
        void cli.overlay[Symbol.asyncDispose]();
        await forever(signal);
      };
      const { code, output, errors } = await run(["ask", "Well?", ...flags]);
      expect(code).toBe(130);
      if (flags.length === 0) expect(output).toBe("Half an ans\n");
      if (flags.length === 0) expect(errors).toContain("the companion is shutting down");
      else
        expect(JSON.parse(output)).toMatchObject({
          status: "cancelled",
          detail: { code: "shutting_down", message: "the companion is shutting down" },
        });
    }
  });

  it("reports that the question was not answered in time", async () => {
    using person = terminal("ask", "-m", REMOTE_MODEL, "Well?");
    using other = terminal("ask", "-m", REMOTE_MODEL, "Well?", "--json");
    for (const shown of [person, other]) await shown.waitForText("Send it, this once? [y/N] ");
    await cli.overlay.clock.advance(300_000);
    for (const shown of [person, other]) await shown.waitForText("the question has expired");
    await person.waitForText("the question was not answered in time");
    expect([await person.ended, await other.ended]).toEqual([5, 5]);
    expect(JSON.parse(other.screen.slice(other.screen.indexOf("{")))).toMatchObject({
      status: "denied",
      detail: { code: "expired", message: "there was no answer in time" },
    });
    expect(cli.responses).toEqual([]);
  });

  it("declines a consent question without a terminal, and prints a hint on how to allow the request", async () => {
    cli.overlay.hits = async () => [house];
    const { code, output, errors } = await run(["ask", "--my-stuff", "-m", REMOTE_MODEL, "Well?"]);
    expect([code, output, cli.responses]).toEqual([5, "", [[1, false]]]);
    expect(errors).toBe(
      [
        "This will be sent to a provider:",
        "  To:               cloud (https://cloud.example), model gpt:large",
        "  Not allowed yet:  prompt, files",
        "  With:             House?[2J (notes) file:///home/me/house.md",
        "  Until:            2030-01-01 00:05:00 UTC (in 5m)",
        "The answer is no: there is no terminal for the question; `berth remote consent prompt files on` allows it permanently",
        "Sources: House?[2J (notes) file:///home/me/house.md",
        "you did not give the permission; the answer ends here",
        "",
      ].join("\n"),
    );
  });

  it("keeps events that arrive before the id of the query, and ignores those of other queries", async () => {
    const peer = new FakeCompanion({
      Ask: () => {
        peer.emit("Token", 8n, "not ours");
        peer.emit("Started", 7n, "{}");
        peer.emit("Token", 7n, "early");
        peer.emit("Finished", 7n, "completed", "{}");
        return [7n];
      },
    });
    cli.bus = peer;
    expect(await run(["ask", "Well?"])).toMatchObject({ code: 0, output: "early\n" });
  });

  it("ends when the companion or the connection to the bus ends", async () => {
    cli.overlay.inference.script = streamForever;
    for (const end of [
      () => cli.bus.emit("NameOwnerChanged", "dev.assistant.Overlay1", ":1.2", ""),
      () => cli.bus.disconnect(),
    ]) {
      const { code, output, errors } = await run(["ask", "Well?"], { onOutput: end });
      expect([code, output]).toEqual([1, "so\n"]);
      expect(errors).toContain("the companion exited during the call");
      expect(cli.bus.calls.at(-1)?.member).toBe("Ask");
    }
  });

  it("is cancelled by Ctrl-C", async () => {
    cli.overlay.inference.script = streamForever;
    let interrupt: (() => void) | undefined;
    const result = await run(["ask", "Well?"], {
      onInterruptible: (listener) => (interrupt = listener),
      onOutput: () => interrupt?.(),
    });
    expect(result).toEqual({ code: 130, output: "so\n", errors: "cancelled\n" });
    expect(cli.overlay.eventSequence(1)).toBe("started so cancelled/cancelled");
  });
});

describe("berth ask at a terminal", () => {
  it.each([
    ["y", 0, "Hello there"],
    ["", 5, "you did not give the permission"],
  ])("accepts %j as the answer to the consent question", async (line, code, shown) => {
    using person = terminal("ask", "-m", REMOTE_MODEL, "Well?");
    await person.waitForText("To:               cloud (https://cloud.example), model gpt:large");
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(`${line}${key.enter}`);
    await person.waitForText(shown);
    expect([await person.ended, cli.responses]).toEqual([code, [[1, code === 0]]]);
  });

  it("shows a tool call in the same way as `berth call`", async () => {
    const { notes } = await cli.overlay.useTools([["create", { title: "Milk" }]]);
    using person = terminal("ask", "Milk please");
    await person.waitForText(/Because of: +user/);
    await person.waitForText('Title  "Milk"');
    await person.waitForText("Run it? [y/N] ");
    person.type(`y${key.enter}`);
    expect(await person.ended).toBe(0);
    expect([...notes.values()]).toEqual([{ title: "Milk" }]);
  });

  it("prints the answer of the model after the user has declined its tool call", async () => {
    const { notes } = await cli.overlay.useTools([["create", { title: "Milk" }]]);
    using person = terminal("ask", "Milk please");
    await person.waitForText("Run it? [y/N] ");
    person.type(key.enter);
    await person.waitForText("Hello there");
    await person.waitForText("org.example.notes create (denied)");
    expect([await person.ended, cli.responses, notes.size]).toEqual([0, [[1, false]], 0]);
  });

  it("asks the user to type the name of a destructive tool, after a delay", async () => {
    cli.overlay.hits = async () => [house];
    const { notes, clock } = await cli.overlay.useTools([["delete", { id: "n1" }]]);
    notes.set("n1", { title: "Milk" });
    using person = terminal("ask", "--my-stuff", "No milk please");
    await person.waitForText("the question follows in 1.5 s");
    person.type(`delete${key.enter}`);
    await person.waitForText("or press Enter to decline: ");
    person.type(`yes${key.enter}`);
    await person.waitForText("That is not delete.");
    expect([cli.responses, notes.size]).toEqual([[], 1]);
    // The companion and the command have separate virtual clocks, which must both advance: the companion accepts no
    // approval before the hold time has passed on its own clock.
    await Promise.all([cli.overlay.clock.advance(1_500), clock.advance(1_500)]);
    person.type(`delete${key.enter}`);
    expect([await person.ended, cli.responses, notes.size]).toEqual([0, [[1, true]], 0]);
  });

  it("declines the question on Ctrl-C", async () => {
    using person = terminal("ask", "-m", REMOTE_MODEL, "Well?");
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(key.interrupt);
    expect([await person.ended, cli.responses]).toEqual([5, [[1, false]]]);
  });

  it("ends the question when another client answers it", async () => {
    using person = terminal("ask", "-m", REMOTE_MODEL, "Well?");
    await person.waitForText("Send it, this once? [y/N] ");
    cli.approveElsewhere();
    await person.waitForText("Another client has answered");
    await person.waitForText("Hello there");
    expect([await person.ended, cli.responses]).toEqual([0, []]);
  });
});
