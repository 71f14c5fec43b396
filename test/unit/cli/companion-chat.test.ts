import { describe, expect, it } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import { serveRemote } from "../../../src/assistant/remote/remote-bus.ts";
import { daemon, OverlayCli } from "../../support/overlay-cli.ts";
import { REMOTE_MODEL, streamForever } from "../../support/overlay-harness.ts";
import { RemoteHarness, userCaller } from "../../support/remote-harness.ts";
import { Gate } from "../../support/scripted-service.ts";
import { key } from "../../support/terminal.ts";

const cli = new OverlayCli();
const { run, terminal } = cli;

describe("chat with the companion", () => {
  it("sends one message to a model of a provider", async () => {
    cli.overlay.consent.set("prompt", true);
    const said = await run(["chat", REMOTE_MODEL, "Well", "then", "--system", "Brief"]);
    expect(said).toEqual({ code: 0, output: "Hello there\n", errors: "" });
    expect(cli.overlay.lastMessages).toEqual([
      { role: "system", content: "Brief" },
      { role: "user", content: "Well then" },
    ]);
    expect(cli.lastModel).toBe(REMOTE_MODEL);
    const json = await run(["chat", "--user", "-o", "json", "Well then"]);
    expect(JSON.parse(json.output)).toMatchObject({ model: "tiny", content: "Hello there" });
    expect(cli.lastModel).toBe("tiny");
  });

  it("reports unsupported options and a missing model", async () => {
    const refused = await run(["chat", "--user", "--temperature", "1", "a b"]);
    expect([refused.code, refused.errors]).toEqual([2, expect.stringContaining("--temperature")]);
    cli.overlay.localModel = undefined;
    const none = await run(["chat", "--user", "a b"]);
    expect([none.code, none.errors]).toEqual([
      1,
      expect.stringContaining("has no local chat model\n"),
    ]);
    cli.overlay.localModelError = new AssistantError("no_model", "nothing\u202e answers");
    const down = await run(["chat", "--user", "a b"]);
    expect([down.code, down.errors]).toEqual([
      1,
      expect.stringContaining("has no local chat model: nothing\\u{202e} answers\n"),
    ]);
  });

  it("exits with 5 if the user declines, or if there is no user to ask", async () => {
    expect(await run(["chat", REMOTE_MODEL, "b"])).toMatchObject({ code: 5, output: "" });
  });

  it("sends earlier messages, lists models, and changes the model", async () => {
    await using providers = new RemoteHarness();
    await providers.remote.addProvider(
      { id: "cloud", displayName: "", baseUrl: "https://cloud.example" },
      userCaller,
    );
    cli.start((own) => serveRemote({ bus: own, service: providers.remote, daemon }));
    cli.overlay.consent.set("prompt", true);
    using person = terminal("chat", "--user");
    await person.waitForText("tiny. /help");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Hello there");
    await person.waitForText(">>> ");
    person.type(`/models${key.enter}`);
    await person.waitForText(/\* +tiny +- +local/);
    await person.waitForText(/remote:cloud:cloud-model +- +remote/);
    person.type(`/model ${REMOTE_MODEL}${key.enter}`);
    await person.waitForText(REMOTE_MODEL);
    await person.waitForText(">>> ");
    person.type(`Two${key.enter}`);
    await person.waitForText("Hello there");
    expect(cli.lastModel).toBe(REMOTE_MODEL);
    expect(cli.overlay.lastMessages).toEqual([
      { role: "user", content: "One" },
      { role: "assistant", content: "Hello there" },
      { role: "user", content: "Two" },
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
    expect(cli.overlay.lastMessages).toHaveLength(257);
    person.type(`One${key.enter}`);
    await person.waitForText("has more than 257 messages");
    await person.waitForText("/clear starts a new chat");
    await person.waitForText(">>> ");
    expect(cli.queries).toHaveLength(129);
    person.type(`/clear${key.enter}`);
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Hello there");
    expect(cli.overlay.lastMessages).toHaveLength(1);
    await person.waitForText(">>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("asks for consent during an answer, and continues the chat after a refusal", async () => {
    using person = terminal("chat", REMOTE_MODEL);
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(key.enter);
    await person.waitForText("(you did not give the permission; the answer ends here)");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(`y${key.enter}`);
    await person.waitForText("Hello there");
    // A message that was not sent does not become part of the chat.
    expect(cli.overlay.lastMessages).toHaveLength(1);
    await person.waitForText(">>> ");
    person.type(`Two${key.enter}`);
    await person.waitForText("Send it, this once? [y/N] ");
    person.type(key.interrupt);
    await person.waitForText("did not give the permission");
    await person.waitForText(">>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
    expect(cli.responses.map(([, isApproved]) => isApproved)).toEqual([false, true, false]);
  });

  it("does not use earlier input as the answer to a question, and ends an expired question", async () => {
    using person = terminal("chat", REMOTE_MODEL);
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("This will be sent to a provider");
    person.type(`y${key.enter}`);
    await person.waitForText("Send it, this once? [y/N] ");
    expect(cli.responses).toEqual([]);
    person.type("y");
    await cli.overlay.clock.advance(300_000);
    await person.waitForText("the question has expired");
    await person.waitForText("(the question was not answered in time; the answer ends here)");
    await person.waitForText(">>> ");
    person.type(`/exit${key.enter}`);
    expect([await person.ended, cli.responses]).toEqual([0, []]);
  });

  it("ends a question that another client answers, and continues the answer", async () => {
    using person = terminal("chat", REMOTE_MODEL);
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("Send it, this once? [y/N] ");
    cli.approveElsewhere();
    await person.waitForText("Another client has answered");
    await person.waitForText("Hello there");
    await person.waitForText(">>> ");
    person.type(key.end);
    expect([await person.ended, cli.responses]).toEqual([0, []]);
  });

  it("Ctrl-C stops an answer, and the chat continues", async () => {
    cli.overlay.inference.script = streamForever;
    using person = terminal("chat", "--user");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await person.waitForText("so");
    person.type(key.interrupt);
    await person.waitForText("(stopped)");
    expect(cli.overlay.finished(1)?.status).toBe("cancelled");
    cli.overlay.inference.script = () => {
      throw new AssistantError("rate_limited", "slow");
    };
    await person.waitForText(">>> ");
    person.type(`Two${key.enter}`);
    await person.waitForText("error: slow");
    await person.waitForText("try again in a moment");
    await person.waitForText(">>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("Ctrl-C before the id of the query is known cancels the query once its id is known", async () => {
    cli.overlay.inference.script = streamForever;
    const gate = new Gate();
    const { Ask: ask } = cli.bus.methods;
    cli.bus.methods = {
      ...cli.bus.methods,
      Ask: async (...args) => {
        const answer = await ask?.(...args);
        await gate.opened;
        return answer ?? [];
      },
    };
    using person = terminal("chat", "--user");
    await person.waitForText(">>> ");
    person.type(`One${key.enter}`);
    await expect.poll(() => cli.overlay.eventSequence(1)).toBe("started so");
    person.type(key.interrupt);
    await person.waitForText("(stopped)");
    gate.open();
    await expect.poll(() => cli.overlay.finished(1)?.status).toBe("cancelled");
    await person.waitForText(">>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });
});
