import { beforeEach, describe, expect, it } from "vitest";
import { companionCli } from "../../support/companion-cli.ts";
import { assertText } from "../../support/companion-client.ts";
import { FakeCompanion } from "../../support/fake-companion.ts";
import type { CliOptions } from "../../support/run-cli.ts";
import { callSpec, consentSpec, ScriptedOverlay } from "../../support/scripted-overlay.ts";
import { key } from "../../support/terminal.ts";

const sources = [
  {
    source: "notes",
    provenance: "file:notes",
    title: "House\u001b[2J",
    uri: "file:///home/me/house.md",
    score: 1,
  },
];

const ListModels = () => ['["openai/gpt-4o", "meta/llama-3"]'];

let overlay: ScriptedOverlay;
let bus: FakeCompanion;
beforeEach(() => {
  overlay = new ScriptedOverlay();
  const own = new FakeCompanion({ ...overlay.methods, ListModels });
  overlay.emit = (member, _signature, args) => own.emit(member, ...args);
  bus = own;
});

const { run, terminal } = companionCli(() => bus);
const turn = () => overlay.turns.at(-1);

/** Makes the companion ask for the consent `spec` in a turn, and answer "Sent." if the user gives it. */
const asking = (spec: object) => {
  overlay.script = async (asked) => {
    asked.started();
    const isApproved = await asked.confirm(spec);
    if (isApproved) asked.token("Sent.");
    asked.finish(isApproved ? "completed" : "denied", { code: "declined" });
  };
};

describe("ask", () => {
  it("sends the user's answer with the number of the question, and shows the recipient and the data", async () => {
    asking(
      consentSpec({
        question: 2,
        address: "https://evil\u009b.example/v1",
        calls: [{ call_id: 3, app_id: "org.example.Notes", tool: "list", status: "executed" }],
      }),
    );
    const asked = await run(["ask", "Well?"]);
    expect(asked.errors).toContain("openrouter (https://evil");
    expect(asked.errors).toMatch(/Results of: +org\.example\.Notes list/);
    expect(asked.errors).not.toContain("\u009b");
    expect([overlay.questions, overlay.responses]).toEqual([[2], [false]]);
    for (const odd of [-1, 1.5, 2 ** 32, "2", null]) {
      asking(consentSpec({ question: odd }));
      expect((await run(["ask", "Well?"])).code).toBe(5);
    }
    expect([overlay.questions.length, overlay.responses.length]).toEqual([1, 6]);
  });

  it("prints only the answer on standard output, and its sources on standard error", async () => {
    overlay.script = (asked) => {
      asked.started({ sources, unavailable: ["tools"] });
      asked.token("In \u001b[31mMay.");
      asked.finish("completed", {
        calls: [{ call_id: 3, app_id: "org.example.Notes", tool: "list", status: "executed" }],
      });
    };
    const asked = await run(["ask", "--my-stuff", "When", "was", "it?"]);
    expect(asked).toEqual({
      code: 0,
      output: "In [31mMay.\n",
      errors: [
        "Sources: House?[2J (notes) file:///home/me/house.md",
        "Tool:    org.example.Notes list (executed)",
        "Without: tools",
        "",
      ].join("\n"),
    });
    expect(turn()?.prompt).toBe("When was it?");
    expect([...(turn()?.options ?? [])]).toEqual([
      ["lane", { signature: "s", value: "agent" }],
      ["my_stuff", { signature: "b", value: true }],
    ]);
  });

  it("sends the model that the user selected, and standard input", async () => {
    await run(["ask", "-m", "remote:openrouter:a/b", "Is this right?"], { input: "a diff\n" });
    expect(turn()?.prompt).toBe("Is this right?\n\na diff");
    expect(turn()?.option("model_hint")).toBe("remote:openrouter:a/b");
    await run(["ask", "-"], { input: "all of it" });
    expect(turn()?.prompt).toBe("all of it");
    expect((await run(["ask", "-"])).code).toBe(2);
  });

  it("prints all information as JSON, without control characters", async () => {
    overlay.script = (asked) => {
      asked.started({ sources });
      asked.token("May\u009b31m");
      asked.finish();
    };
    const { code, output, errors } = await run(["ask", "--json", "When?"]);
    expect([code, errors]).toEqual([0, ""]);
    expect(output).not.toContain("\u009b");
    expect(JSON.parse(output)).toMatchObject({
      v: 1,
      status: "completed",
      answer: "May\u009b31m",
      meta: { route: "local", sources },
      detail: { code: "ok", finish_reason: "stop" },
    });
  });

  it.each([
    ["failed", { code: "unauthorized", message: "the key is refused" }, 4, "berth remote key ID"],
    ["failed", { code: "no_model", message: "no model" }, 4, "berth models start NAME"],
    ["cancelled", { code: "shutting_down", message: "it ends" }, 130, "it ends"],
    ["denied", { code: "expired", message: "late" }, 5, "not answered in time"],
  ])("that is %s reports the reason", async (status, detail, code, words) => {
    overlay.script = (asked) => {
      asked.started();
      asked.token("Half an ans");
      asked.finish(status, detail);
    };
    const result = await run(["ask", "Well?"]);
    expect([result.code, result.output]).toEqual([code, "Half an ans\n"]);
    expect(result.errors).toContain(words);
    const json = await run(["ask", "Well?", "--json"]);
    expect([json.code, JSON.parse(json.output)]).toMatchObject([code, { status, detail }]);
  });

  it("declines a consent question without a terminal, and prints a hint on how to allow the request", async () => {
    overlay.script = async (asked) => {
      const isApproved = await asked.confirm(consentSpec({ sources }));
      asked.finish(isApproved ? "completed" : "denied", { code: "declined" });
    };
    const { code, output, errors } = await run(["ask", "-m", "remote:openrouter:a", "Well?"]);
    expect([code, output, overlay.responses]).toEqual([5, "", [false]]);
    expect(errors).toBe(
      [
        "This will be sent to a provider:",
        "  To:               openrouter, model openai/gpt-4o",
        "  Not allowed yet:  prompt, files",
        "  With:             House?[2J (notes) file:///home/me/house.md",
        "  Until:            2030-01-01 00:05:00 UTC (in 5m)",
        "The answer is no: there is no terminal for the question; `berth remote consent prompt files on` allows it permanently",
        "you did not allow it; the answer ends here",
        "",
      ].join("\n"),
    );
  });

  it("declines a consent question of an unknown kind", async () => {
    overlay.script = async (asked) => {
      asked.finish((await asked.confirm({ v: 2, kind: "payment" })) ? "completed" : "denied");
    };
    using person = terminal("ask", "Well?");
    await person.waitForText("does not know");
    expect([await person.ended, overlay.responses]).toEqual([5, [false]]);
  });

  it("keeps events that arrive before the id of the query, and ignores those of other queries", async () => {
    bus.methods = {
      ...overlay.methods,
      Ask: () => {
        bus.emit("Token", 8n, "not ours");
        bus.emit("Started", 7n, "{}");
        bus.emit("Token", 7n, "early");
        bus.emit("Finished", 7n, "completed", "{}");
        return [7n];
      },
    };
    expect(await run(["ask", "Well?"])).toMatchObject({ code: 0, output: "early\n" });
  });

  it("ends when the companion or the connection to the bus ends", async () => {
    for (const end of [
      () => bus.emit("NameOwnerChanged", "dev.assistant.Overlay1", ":1.2", ""),
      () => bus.disconnect(),
    ]) {
      overlay.script = (asked) => {
        asked.token("Half");
        setImmediate(end);
      };
      const { code, output, errors } = await run(["ask", "Well?"]);
      expect([code, output]).toEqual([1, "Half\n"]);
      expect(errors).toContain("the companion ended during the call");
      expect(overlay.turns.at(-1)?.isCancelled).toBe(false);
    }
  });

  it("is cancelled by Ctrl-C", async () => {
    let interrupt: (() => void) | undefined;
    const options: CliOptions = { onInterruptible: (listener) => (interrupt = listener) };
    overlay.script = (asked) => {
      asked.token("Half");
      setImmediate(() => interrupt?.());
    };
    const result = await run(["ask", "Well?"], options);
    expect(result).toEqual({ code: 130, output: "Half\n", errors: "cancelled\n" });
    expect(turn()?.isCancelled).toBe(true);
  });
});

describe("ask at a terminal", () => {
  it.each([
    ["y", 0, "Sent."],
    ["", 5, "you did not allow it"],
  ])("accepts %j as the answer to the consent question", async (line, code, shown) => {
    asking(consentSpec());
    using person = terminal("ask", "Well?");
    await person.waitForText("To:               openrouter, model openai/gpt-4o");
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(`${line}${key.enter}`);
    await person.waitForText(shown);
    expect([await person.ended, overlay.responses]).toEqual([code, [code === 0]]);
  });

  it("shows a tool call in the same way as `berth call`", async () => {
    asking(callSpec());
    using person = terminal("ask", "Milk please");
    await person.waitForText(/Because of: +user/);
    await person.waitForText('Title  "Milk"');
    await person.waitForText("Run it? [y/N] ");
    person.type(`y${key.enter}`);
    expect(await person.ended).toBe(0);
  });

  it("asks the user to type the name of a destructive tool, after a delay", async () => {
    asking(callSpec({ tiers: { declared: "write", effective: "destructive" }, hold_ms: 300 }));
    using person = terminal("ask", "Milk please");
    await person.waitForText("the question follows in 0.3 s");
    person.type(`add_note${key.enter}`);
    await person.waitForText("or press Enter to decline: ");
    person.type(`yes${key.enter}`);
    await person.waitForText("That is not add_note.");
    expect(overlay.responses).toEqual([]);
    person.type(`add_note${key.enter}`);
    expect([await person.ended, overlay.responses]).toEqual([0, [true]]);
  });

  it("declines the question on Ctrl-C", async () => {
    asking(consentSpec());
    using person = terminal("ask", "Well?");
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(key.interrupt);
    expect([await person.ended, overlay.responses]).toEqual([5, [false]]);
  });

  it("ends the question when another client answers it", async () => {
    asking(consentSpec());
    using person = terminal("ask", "Well?");
    await person.waitForText("Send it, this once? [y/N] ");
    turn()?.respond(true);
    await person.waitForText("Another client has answered");
    await person.waitForText("Sent.");
    expect([await person.ended, overlay.responses]).toEqual([0, []]);
  });
});

describe("chat with the companion", () => {
  it("sends one message to a model of a provider", async () => {
    const said = await run(["chat", "remote:openrouter:a/b", "Well", "then", "--system", "Brief"]);
    expect(said).toEqual({ code: 0, output: "Hello there\n", errors: "" });
    expect(turn()?.prompt).toBe("Well then");
    expect(turn()?.option("lane")).toBe("chat");
    expect(turn()?.option("model_hint")).toBe("remote:openrouter:a/b");
    expect(JSON.parse(assertText(turn()?.option("history_json")))).toEqual([
      { role: "system", content: "Brief" },
    ]);
    const json = await run(["chat", "--user", "-o", "json", "Well then"]);
    expect(JSON.parse(json.output)).toMatchObject({ model: "tiny", content: "Hello there" });
    expect(turn()?.option("model_hint")).toBe("tiny");
  });

  it("reports unsupported options and a missing model", async () => {
    const refused = await run(["chat", "--user", "--temperature", "1", "a b"]);
    expect([refused.code, refused.errors]).toEqual([2, expect.stringContaining("--temperature")]);
    overlay.status = new Map([["model", { signature: "s", value: "" }]]);
    const none = await run(["chat", "--user", "a b"]);
    expect([none.code, none.errors]).toEqual([
      1,
      expect.stringContaining("has no local chat model"),
    ]);
  });

  it("exits with 5 if the user declines, or if there is no user to ask", async () => {
    overlay.script = async (asked) => {
      asked.finish((await asked.confirm(consentSpec())) ? "completed" : "denied", {
        code: "declined",
      });
    };
    expect(await run(["chat", "remote:openrouter:a", "b"])).toMatchObject({ code: 5, output: "" });
  });

  it("sends earlier messages, lists models, and changes the model", async () => {
    using person = terminal("chat", "--user");
    await person.waitForText("tiny. /help");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Hello there");
    await person.waitForText(">>> ");
    person.type(`/models${key.enter}`);
    await person.waitForText(/\* +tiny +- +local/);
    await person.waitForText(/remote:openrouter:openai\/gpt-4o +- +remote/);
    person.type(`/model remote:openrouter:meta/llama-3${key.enter}`);
    await person.waitForText("remote:openrouter:meta/llama-3");
    await person.waitForText(">>> ");
    person.type(`Two${key.enter}`);
    await person.waitForText("Hello there");
    expect(turn()?.option("model_hint")).toBe("remote:openrouter:meta/llama-3");
    expect(JSON.parse(assertText(turn()?.option("history_json")))).toEqual([
      { role: "user", content: "One" },
      { role: "assistant", content: "Hello there" },
    ]);
    await person.waitForText(">>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("reports a chat that is too long for the companion, and can start a new one", async () => {
    using person = terminal("chat", "--user");
    await person.waitForText(">>> ");
    for (let said = 0; said < 129; said += 1) {
      person.type(`One${key.enter}`);
      await person.waitForText("Hello there");
      await person.waitForText(">>> ");
    }
    expect(JSON.parse(assertText(turn()?.option("history_json")))).toHaveLength(256);
    person.type(`One${key.enter}`);
    await person.waitForText("has more than 257 messages");
    await person.waitForText("/clear starts a new chat");
    await person.waitForText(">>> ");
    expect(overlay.turns).toHaveLength(129);
    person.type(`/clear${key.enter}`);
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Hello there");
    expect(turn()?.option("history_json")).toBeUndefined();
    await person.waitForText(">>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("asks for consent during an answer, and continues the chat after a refusal", async () => {
    overlay.script = async (asked) => {
      const isApproved = await asked.confirm(consentSpec());
      if (isApproved) asked.token("Sent.");
      asked.finish(isApproved ? "completed" : "denied", { code: "declined" });
    };
    using person = terminal("chat", "remote:openrouter:a");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(key.enter);
    await person.waitForText("(you did not allow it; the answer ends here)");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(`y${key.enter}`);
    await person.waitForText("Sent.");
    // A message that was not sent does not become part of the chat.
    expect(turn()?.option("history_json")).toBeUndefined();
    await person.waitForText(">>> ");
    person.type(`Two${key.enter}`);
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(key.interrupt);
    await person.waitForText("did not allow it");
    await person.waitForText(">>> ");
    person.type(key.end);
    expect([await person.ended, overlay.responses]).toEqual([0, [false, true, false]]);
  });

  it("does not use earlier input as the answer to a question, and ends an expired question", async () => {
    overlay.script = async (asked) => {
      await asked.confirm(callSpec({ hold_ms: 200 }));
      asked.token("Done.");
      asked.finish();
    };
    using person = terminal("chat", "--user");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("the question follows in 0.2 s");
    person.type(`y${key.enter}`);
    await person.waitForText("Run it? [y/N] ");
    expect(overlay.responses).toEqual([]);
    person.type("y");
    turn()?.respond(true);
    await person.waitForText("Another client has answered");
    await person.waitForText("Done.");
    await person.waitForText(">>> ");
    person.type(`/exit${key.enter}`);
    expect([await person.ended, overlay.responses]).toEqual([0, []]);
  });

  it("Ctrl-C stops an answer, and the chat continues", async () => {
    overlay.script = (asked) => asked.token("Half");
    using person = terminal("chat", "--user");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Half");
    person.type(key.interrupt);
    await person.waitForText("(stopped)");
    expect(turn()?.isCancelled).toBe(true);
    overlay.script = (asked) => asked.finish("failed", { code: "rate_limited", message: "slow" });
    await person.waitForText(">>> ");
    person.type(`Two${key.enter}`);
    await person.waitForText("error: slow");
    await person.waitForText("try again in a moment");
    await person.waitForText(">>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("Ctrl-C before the id of the query is known cancels the query once its id is known", async () => {
    let answer: (() => void) | undefined;
    let cancelled: unknown;
    bus.methods = {
      GetStatus: () => [overlay.status],
      Ask: () =>
        new Promise((resolve) => {
          answer = () => resolve([7n]);
        }),
      Cancel: (id) => {
        cancelled = id;
        return [];
      },
    };
    using person = terminal("chat", "--user");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await expect.poll(() => answer).toBeDefined();
    person.type(key.interrupt);
    await person.waitForText("(stopped)");
    answer?.();
    await expect.poll(() => cancelled).toBe(7n);
    await person.waitForText(">>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });
});
