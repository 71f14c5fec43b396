import { writeFile } from "node:fs/promises";
import { afterEach, describe, expect, it } from "vitest";
import { faultyTurn } from "../../support/provider/faulty-turns.ts";
import { TestProvider } from "../../support/provider/test-provider.ts";
import { FAR, NEAR, RemoteDesk } from "../../support/remote-desk.ts";

let desk: RemoteDesk;
afterEach(() => desk?.[Symbol.asyncDispose]());

const ask = (model: string, text: string, lane = "chat") =>
  desk.person.ask(text, { lane, model_hint: model });
const isAlive = () => {
  try {
    process.kill(desk.companion.ready.pid, 0);
    return true;
  } catch {
    return false;
  }
};
const allLeft = () =>
  expect.poll(() => desk.chats().map(({ state }) => state)).not.toContain("open");

describe("the system instance", () => {
  it("dies: what it answered ends, what providers answer goes on, and it comes back", async () => {
    desk = await RemoteDesk.open({ script: faultyTurn });
    await writeFile(
      desk.companion.settingsFile,
      `models: { either: [${NEAR}, "${FAR}"], far: "${FAR}", lost: [${NEAR}, other] }\n`,
    );
    const { port } = desk.near;
    const near = desk.chat(NEAR, "Tell me #hang");
    const far = desk.chat(FAR, "Tell me #hang");
    const turn = await ask(NEAR, "Tell me #hang");
    const farTurn = await ask(FAR, "Tell me #hang");
    await Promise.all([near.begun, far.begun]);
    await desk.person.until("they begin", () => turn.text !== "" && farTurn.text !== "");
    await desk.near[Symbol.asyncDispose]();

    expect(await near.end).toMatchObject({ code: "engine_failed" });
    expect((await desk.person.ended(turn)).end).toMatchObject({
      status: "failed",
      detail: { code: "engine_failed" },
    });
    expect(farTurn.end).toBeUndefined();
    expect(await desk.chat(FAR, "Hello").said()).toBe("You said: Hello");
    for (const model of [NEAR, "lost"])
      expect(await desk.chat(model, "Hello").end).toMatchObject({ status: 503, code: "no_model" });
    expect(await desk.chat("either", "Hello").said()).toBe("You said: Hello");
    expect((await desk.person.ended(await ask(NEAR, "Hello"))).end?.detail["code"]).toBe(
      "no_model",
    );
    // The agent lane has nobody who chooses tools, and says so.
    const toolless = await desk.person.ended(await ask(FAR, "Hello", "agent"));
    expect(toolless).toMatchObject({ end: { status: "completed" } });
    expect(toolless.text).toContain("You said: ");
    const { text } = await desk.get("/v1/models").end;
    expect(text).toContain(FAR);
    expect(text).not.toContain(`"id":"${NEAR}"`);
    expect((await desk.queries()).active).toBe(1);

    // A fallback never goes where consent is missing, and sends nothing.
    await desk.person.call("Remote1", "SetConsent", "sb", "prompt", false);
    expect(await far.end).toMatchObject({ code: "consent_required" });
    const sent = desk.chats().length;
    expect(await desk.chat("either", "Hello").end).toMatchObject({
      status: 403,
      code: "consent_required",
    });
    expect(desk.chats()).toHaveLength(sent);

    await using _ = await TestProvider.start({ port, models: [NEAR] });
    expect(await desk.chat("either", "Hello").said()).toBe("You said: Hello");
    expect((await desk.person.ended(await ask(NEAR, "Again"))).text).toBe("You said: Again");
    expect(desk.chats()).toHaveLength(sent);
  });
});

describe("the session bus", () => {
  it("dies in the middle of a turn: the daemon ends, and nothing goes on at a provider", async () => {
    desk = await RemoteDesk.open({ script: faultyTurn });
    const far = desk.chat(FAR, "Tell me #hang");
    const waiting = desk.chat(FAR, "Tell me #hang-head");
    const turns = await Promise.all([ask(FAR, "Tell me #hang"), ask(NEAR, "Tell me #hang")]);
    await far.begun;
    await desk.person.until("they begin", () => turns.every(({ text }) => text !== ""));
    await desk.cloud.until(() => desk.chats().length === 3);
    await desk.bus.kill();

    expect(await far.end).toMatchObject({ code: "shutting_down" });
    expect(await waiting.end).toMatchObject({ status: 503, code: "shutting_down" });
    await expect.poll(isAlive).toBe(false);
    expect(await desk.companion.stop()).toBe(0);
    await allLeft();
    await expect.poll(() => desk.cloud.connections + desk.near.connections).toBe(0);
    expect(desk.companion.log).toContain("the session bus is gone");
    expect(desk.companion.lines.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    const verify = await desk.companion.berth(["ledger", "verify", "--user"]);
    expect(verify).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whole: /) });
  });
});
