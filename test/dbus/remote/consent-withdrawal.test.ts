import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RecordedTurn } from "../../support/frontend-client.ts";
import { findFaultyResponse } from "../../support/provider/faulty-responses.ts";
import { refusal, type ScriptedResponse } from "../../support/provider/scripted-response.ts";
import { Dice } from "../../support/random.ts";
import {
  type HttpChat,
  LOCAL_MODEL,
  REMOTE_MODEL,
  RemoteCompanionHarness,
} from "../../support/remote-companion-harness.ts";
import { SEED } from "../../support/sampling.ts";

const dice = new Dice(SEED);
/** As many as the overlay runs, and the rest by the port. */
const BY_THE_BUS = 4;
const STREAMS = 50;

let desk: RemoteCompanionHarness;
let unwell: ScriptedResponse | undefined;

beforeAll(async () => {
  process.stdout.write(`BERTH_SEED=${SEED}\n`);
  desk = await RemoteCompanionHarness.open({
    script: (request) => unwell ?? findFaultyResponse(request),
  });
});
afterAll(() => desk?.[Symbol.asyncDispose]());
beforeEach(async () => {
  unwell = undefined;
  await consent(true);
});

const consent = (isAllowed: boolean) =>
  desk.frontend.call("Remote1", "SetConsent", "sb", "prompt", isAllowed);
const far = (text: string) => desk.chat(REMOTE_MODEL, text);
const ask = (text: string) => desk.frontend.ask(text, { lane: "chat", model_hint: REMOTE_MODEL });

interface ActiveStreams {
  readonly chats: readonly HttpChat[];
  readonly turns: readonly RecordedTurn[];
}

async function startFiftyStreams(text: string): Promise<ActiveStreams> {
  const chats = Array.from({ length: STREAMS - BY_THE_BUS }, () => far(text));
  const turns = await Promise.all(Array.from({ length: BY_THE_BUS }, () => ask(text)));
  return { chats, turns };
}

const over = (turn: RecordedTurn) => turn.end !== undefined;

async function endedBy({ chats, turns }: ActiveStreams): Promise<void> {
  const [codes] = await Promise.all([
    Promise.all(chats.map(async ({ result: end }) => (await end).code)),
    desk.frontend.waitUntil("the turns end", () => turns.every(over)),
  ]);
  expect(codes).toEqual(codes.map(() => "consent_required"));
  for (const { end, specs } of turns) {
    expect(specs).toEqual([]);
    expect(end).toMatchObject({ status: "failed", detail: { code: "consent_required" } });
  }
}

/** What was on its way to the provider has arrived. */
async function arrived(): Promise<number> {
  for (let looks = 0; looks < 3; looks += 1) await desk.chat(LOCAL_MODEL, "Hello").result;
  return desk.listChatRequests().length;
}

async function nothingLeaves(): Promise<void> {
  const before = await arrived();
  expect(await far("Hello").result).toMatchObject({ status: 403, code: "consent_required" });
  const turn = await ask("Hello");
  await desk.frontend.waitForQuestion(turn);
  await desk.frontend.respond(turn, false);
  expect((await desk.frontend.waitForEnd(turn)).end?.status).toBe("denied");
  expect(await arrived()).toBe(before);
}

describe("consent that is taken back", () => {
  it("ends fifty streams in their middle, and given again is as before", async () => {
    const streams = await startFiftyStreams("Tell me #hang");
    await Promise.all(streams.chats.map(({ begun }) => begun));
    await desk.frontend.waitUntil("they begin", () =>
      streams.turns.every(({ text }) => text !== ""),
    );
    await consent(false);
    await endedBy(streams);
    await expect
      .poll(() => desk.listChatRequests().map(({ state }) => state))
      .not.toContain("open");
    expect(
      desk
        .listChatRequests()
        .slice(-STREAMS)
        .map(({ state }) => state),
    ).toEqual(Array<string>(STREAMS).fill("left"));
    expect(await desk.countQueries()).toEqual({ active: 0, pending: 0 });
    await nothingLeaves();

    await consent(true);
    expect(await far("Hello").readAnswer()).toBe("You said: Hello");
    expect((await desk.frontend.waitForEnd(await ask("Hello"))).text).toBe("You said: Hello");
  });

  it("ends those that have no answer yet", async () => {
    const before = desk.listChatRequests().length;
    const streams = await startFiftyStreams("Tell me #hang-head");
    await desk.cloudProvider.until(() => desk.listChatRequests().length === before + STREAMS);
    await consent(false);
    await endedBy(streams);
    await expect
      .poll(() => desk.listChatRequests().map(({ state }) => state))
      .not.toContain("open");
    await nothingLeaves();
  });

  it("ends those that wait until they are tried again", async () => {
    unwell = refusal(503, "later", { "retry-after": "2" });
    const before = desk.listChatRequests().length;
    const streams = await startFiftyStreams("Tell me");
    await desk.cloudProvider.until(() => desk.listChatRequests().length === before + STREAMS);
    await consent(false);
    await endedBy(streams);
    expect(await arrived()).toBe(before + STREAMS);
    await nothingLeaves();
  });

  it("stands between whatever was asked at the same time", async () => {
    for (let round = 0; round < 5; round += 1) {
      await consent(true);
      const before = desk.listChatRequests().length;
      const chats = Array.from({ length: STREAMS }, () => far("Tell me #hang"));
      const some = dice.between(1, STREAMS);
      await desk.cloudProvider.until(() => desk.listChatRequests().length >= before + some);
      await consent(false);
      const sent = await arrived();
      const codes = await Promise.all(chats.map(async ({ result: end }) => (await end).code));
      expect(codes).toEqual(codes.map(() => "consent_required"));
      expect(await arrived()).toBe(sent);
    }
    expect(await desk.countQueries()).toEqual({ active: 0, pending: 0 });
  });
});

describe("a key that is cleared", () => {
  it("ends the streams that go by it; others are served, and so are they with another key", async () => {
    const chats = Array.from({ length: 10 }, () => far("Tell me #hang"));
    const turn = await ask("Tell me #hang");
    await Promise.all(chats.map(({ begun }) => begun));
    await desk.frontend.waitUntil("it begins", () => turn.text !== "");
    await desk.frontend.call("Remote1", "ClearKey", "s", "cloud");
    const codes = await Promise.all(chats.map(async ({ result: end }) => (await end).code));
    expect(codes).toEqual(chats.map(() => "unauthorized"));
    const { end } = await desk.frontend.waitForEnd(turn);
    expect(end).toMatchObject({ status: "failed", detail: { code: "unauthorized" } });
    await expect
      .poll(() => desk.listChatRequests().map(({ state }) => state))
      .not.toContain("open");
    expect(await desk.chat(LOCAL_MODEL, "Hello").readAnswer()).toBe("You said: Hello");
    await desk.setKey();
    expect(await far("Hello").readAnswer()).toBe("You said: Hello");
  });
});
