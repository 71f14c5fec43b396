import { writeFile } from "node:fs/promises";
import { afterEach, describe, expect, it } from "vitest";
import { findFaultyResponse } from "../../support/provider/faulty-responses.ts";
import { TestProvider } from "../../support/provider/test-provider.ts";
import {
  LOCAL_MODEL,
  REMOTE_MODEL,
  RemoteCompanionHarness,
} from "../../support/remote-companion-harness.ts";

let desk: RemoteCompanionHarness;
afterEach(() => desk?.[Symbol.asyncDispose]());

const ask = (model: string, text: string, lane = "chat") =>
  desk.frontend.ask(text, { lane, model_hint: model });
const isAlive = () => {
  try {
    process.kill(desk.companion.ready.pid, 0);
    return true;
  } catch {
    return false;
  }
};
const allLeft = () =>
  expect.poll(() => desk.listChatRequests().map(({ state }) => state)).not.toContain("open");

describe("the system instance", () => {
  it("dies: what it answered ends, what providers answer goes on, and it comes back", async () => {
    desk = await RemoteCompanionHarness.open({ script: findFaultyResponse });
    await writeFile(
      desk.companion.settingsFile,
      `models: { either: [${LOCAL_MODEL}, "${REMOTE_MODEL}"], far: "${REMOTE_MODEL}", lost: [${LOCAL_MODEL}, other] }\n`,
    );
    const { port } = desk.localProvider;
    const near = desk.chat(LOCAL_MODEL, "Tell me #hang");
    const far = desk.chat(REMOTE_MODEL, "Tell me #hang");
    const turn = await ask(LOCAL_MODEL, "Tell me #hang");
    const farTurn = await ask(REMOTE_MODEL, "Tell me #hang");
    await Promise.all([near.begun, far.begun]);
    await desk.frontend.waitUntil("they begin", () => turn.text !== "" && farTurn.text !== "");
    await desk.localProvider[Symbol.asyncDispose]();

    expect(await near.result).toMatchObject({ code: "engine_failed" });
    expect((await desk.frontend.waitForEnd(turn)).end).toMatchObject({
      status: "failed",
      detail: { code: "engine_failed" },
    });
    expect(farTurn.end).toBeUndefined();
    expect(await desk.chat(REMOTE_MODEL, "Hello").readAnswer()).toBe("You said: Hello");
    for (const model of [LOCAL_MODEL, "lost"])
      expect(await desk.chat(model, "Hello").result).toMatchObject({
        status: 503,
        code: "no_model",
      });
    expect(await desk.chat("either", "Hello").readAnswer()).toBe("You said: Hello");
    expect(
      (await desk.frontend.waitForEnd(await ask(LOCAL_MODEL, "Hello"))).end?.detail["code"],
    ).toBe("no_model");
    // The agent lane has nobody who chooses tools, and says so.
    const toolless = await desk.frontend.waitForEnd(await ask(REMOTE_MODEL, "Hello", "agent"));
    expect(toolless).toMatchObject({ end: { status: "completed" } });
    expect(toolless.text).toContain("You said: ");
    const { text } = await desk.get("/v1/models").result;
    expect(text).toContain(REMOTE_MODEL);
    expect(text).not.toContain(`"id":"${LOCAL_MODEL}"`);
    expect((await desk.countQueries()).active).toBe(1);

    // A fallback never goes where consent is missing, and sends nothing.
    await desk.frontend.call("Remote1", "SetConsent", "sb", "prompt", false);
    expect(await far.result).toMatchObject({ code: "consent_required" });
    const sent = desk.listChatRequests().length;
    expect(await desk.chat("either", "Hello").result).toMatchObject({
      status: 403,
      code: "consent_required",
    });
    expect(desk.listChatRequests()).toHaveLength(sent);

    await using _ = await TestProvider.start({ port, models: [LOCAL_MODEL] });
    expect(await desk.chat("either", "Hello").readAnswer()).toBe("You said: Hello");
    expect((await desk.frontend.waitForEnd(await ask(LOCAL_MODEL, "Again"))).text).toBe(
      "You said: Again",
    );
    expect(desk.listChatRequests()).toHaveLength(sent);
  });
});

describe("the session bus", () => {
  it("dies in the middle of a turn: the daemon ends, and nothing goes on at a provider", async () => {
    desk = await RemoteCompanionHarness.open({ script: findFaultyResponse });
    const far = desk.chat(REMOTE_MODEL, "Tell me #hang");
    const waiting = desk.chat(REMOTE_MODEL, "Tell me #hang-head");
    const turns = await Promise.all([
      ask(REMOTE_MODEL, "Tell me #hang"),
      ask(LOCAL_MODEL, "Tell me #hang"),
    ]);
    await far.begun;
    await desk.frontend.waitUntil("they begin", () => turns.every(({ text }) => text !== ""));
    await desk.cloudProvider.until(() => desk.listChatRequests().length === 3);
    await desk.bus.kill();

    expect(await far.result).toMatchObject({ code: "shutting_down" });
    expect(await waiting.result).toMatchObject({ status: 503, code: "shutting_down" });
    await expect.poll(isAlive).toBe(false);
    expect(await desk.companion.stop()).toBe(0);
    await allLeft();
    await expect
      .poll(() => desk.cloudProvider.connections + desk.localProvider.connections)
      .toBe(0);
    expect(desk.companion.log).toContain("the session bus closed");
    expect(desk.companion.lines.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    const verify = await desk.companion.berth(["ledger", "verify", "--user"]);
    expect(verify).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whole: /) });
  });
});
