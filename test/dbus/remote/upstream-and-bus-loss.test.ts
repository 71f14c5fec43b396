import { writeFile } from "node:fs/promises";
import { afterEach, describe, expect, it } from "vitest";
import { findFaultyResponse } from "../../support/provider/faulty-responses.ts";
import { TestProvider } from "../../support/provider/test-provider.ts";
import {
  LOCAL_MODEL,
  REMOTE_MODEL,
  RemoteCompanionHarness,
} from "../../support/remote-companion-harness.ts";

let harness: RemoteCompanionHarness;
afterEach(() => harness?.[Symbol.asyncDispose]());

const ask = (model: string, text: string, lane = "chat") =>
  harness.frontend.ask(text, { lane, model_hint: model });
const isAlive = () => {
  try {
    process.kill(harness.companion.ready.pid, 0);
    return true;
  } catch {
    return false;
  }
};
const waitUntilAllExited = () =>
  expect.poll(() => harness.listChatRequests().map(({ state }) => state)).not.toContain("open");

describe("the loss of the assistant's system instance", () => {
  it("ends the answers of local models but not those of providers, and local models answer again after its restart", async () => {
    harness = await RemoteCompanionHarness.open({ script: findFaultyResponse });
    await writeFile(
      harness.companion.settingsFile,
      `models: { either: [${LOCAL_MODEL}, "${REMOTE_MODEL}"], far: "${REMOTE_MODEL}", lost: [${LOCAL_MODEL}, other] }\n`,
    );
    const { port } = harness.localProvider;
    const near = harness.chat(LOCAL_MODEL, "Tell me #hang");
    const far = harness.chat(REMOTE_MODEL, "Tell me #hang");
    const turn = await ask(LOCAL_MODEL, "Tell me #hang");
    const farTurn = await ask(REMOTE_MODEL, "Tell me #hang");
    await Promise.all([near.begun, far.begun]);
    await harness.frontend.waitUntil(
      "the streams to begin",
      () => turn.text !== "" && farTurn.text !== "",
    );
    await harness.localProvider[Symbol.asyncDispose]();

    expect(await near.result).toMatchObject({ code: "engine_failed" });
    expect((await harness.frontend.waitForEnd(turn)).end).toMatchObject({
      status: "failed",
      detail: { code: "engine_failed" },
    });
    expect(farTurn.end).toBeUndefined();
    expect(await harness.chat(REMOTE_MODEL, "Hello").readAnswer()).toBe("You said: Hello");
    for (const model of [LOCAL_MODEL, "lost"])
      expect(await harness.chat(model, "Hello").result).toMatchObject({
        status: 503,
        code: "no_model",
      });
    expect(await harness.chat("either", "Hello").readAnswer()).toBe("You said: Hello");
    expect(
      (await harness.frontend.waitForEnd(await ask(LOCAL_MODEL, "Hello"))).end?.detail["code"],
    ).toBe("no_model");
    // A query of the lane `agent` is answered without tools, because no local model is available to choose them.
    const toolless = await harness.frontend.waitForEnd(await ask(REMOTE_MODEL, "Hello", "agent"));
    expect(toolless).toMatchObject({ end: { status: "completed" } });
    expect(toolless.text).toContain("You said: ");
    const { text } = await harness.get("/v1/models").result;
    expect(text).toContain(REMOTE_MODEL);
    expect(text).not.toContain(`"id":"${LOCAL_MODEL}"`);
    expect((await harness.countQueries()).active).toBe(1);

    // The provider is not used as a fallback, because the user has not consented. No data is sent.
    await harness.frontend.call("Remote1", "SetConsent", "sb", "prompt", false);
    expect(await far.result).toMatchObject({ code: "consent_required" });
    const sent = harness.listChatRequests().length;
    expect(await harness.chat("either", "Hello").result).toMatchObject({
      status: 403,
      code: "consent_required",
    });
    expect(harness.listChatRequests()).toHaveLength(sent);

    await using _ = await TestProvider.start({ port, models: [LOCAL_MODEL] });
    expect(await harness.chat("either", "Hello").readAnswer()).toBe("You said: Hello");
    expect((await harness.frontend.waitForEnd(await ask(LOCAL_MODEL, "Again"))).text).toBe(
      "You said: Again",
    );
    expect(harness.listChatRequests()).toHaveLength(sent);
  });
});

describe("the death of the session bus", () => {
  it("during a turn ends the daemon and its requests at providers", async () => {
    harness = await RemoteCompanionHarness.open({ script: findFaultyResponse });
    const far = harness.chat(REMOTE_MODEL, "Tell me #hang");
    const waiting = harness.chat(REMOTE_MODEL, "Tell me #hang-head");
    const turns = await Promise.all([
      ask(REMOTE_MODEL, "Tell me #hang"),
      ask(LOCAL_MODEL, "Tell me #hang"),
    ]);
    await far.begun;
    await harness.frontend.waitUntil("the streams to begin", () =>
      turns.every(({ text }) => text !== ""),
    );
    await harness.cloudProvider.until(() => harness.listChatRequests().length === 3);
    await harness.bus.kill();

    expect(await far.result).toMatchObject({ code: "shutting_down" });
    expect(await waiting.result).toMatchObject({ status: 503, code: "shutting_down" });
    await expect.poll(isAlive).toBe(false);
    expect(await harness.companion.stop()).toBe(0);
    await waitUntilAllExited();
    await expect
      .poll(() => harness.cloudProvider.connections + harness.localProvider.connections)
      .toBe(0);
    expect(harness.companion.log).toContain("the session bus closed its connection");
    expect(harness.companion.lines.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    const verify = await harness.companion.berth(["ledger", "verify", "--user"]);
    expect(verify).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whole: /) });
  });
});
