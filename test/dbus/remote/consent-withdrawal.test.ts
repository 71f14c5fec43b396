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
/** The number of streams that are overlay queries, which is the overlay's maximum. All others are HTTP requests. */
const OVERLAY_STREAMS = 4;
const STREAMS = 50;

let harness: RemoteCompanionHarness;
let unwell: ScriptedResponse | undefined;

beforeAll(async () => {
  process.stdout.write(`BERTH_SEED=${SEED}\n`);
  harness = await RemoteCompanionHarness.open({
    script: (request) => unwell ?? findFaultyResponse(request),
  });
});
afterAll(() => harness?.[Symbol.asyncDispose]());
beforeEach(async () => {
  unwell = undefined;
  await setConsent(true);
});

const setConsent = (isAllowed: boolean) =>
  harness.frontend.call("Remote1", "SetConsent", "sb", "prompt", isAllowed);
const askRemote = (text: string) => harness.chat(REMOTE_MODEL, text);
const ask = (text: string) =>
  harness.frontend.ask(text, { lane: "chat", model_hint: REMOTE_MODEL });

interface ActiveStreams {
  readonly chats: readonly HttpChat[];
  readonly turns: readonly RecordedTurn[];
}

async function startFiftyStreams(text: string): Promise<ActiveStreams> {
  const chats = Array.from({ length: STREAMS - OVERLAY_STREAMS }, () => askRemote(text));
  const turns = await Promise.all(Array.from({ length: OVERLAY_STREAMS }, () => ask(text)));
  return { chats, turns };
}

const hasEnded = (turn: RecordedTurn) => turn.end !== undefined;

async function waitUntilEnded({ chats, turns }: ActiveStreams): Promise<void> {
  const [codes] = await Promise.all([
    Promise.all(chats.map(async ({ result: end }) => (await end).code)),
    harness.frontend.waitUntil("the turns to end", () => turns.every(hasEnded)),
  ]);
  expect(codes).toEqual(codes.map(() => "consent_required"));
  for (const { end, specs } of turns) {
    expect(specs).toEqual([]);
    expect(end).toMatchObject({ status: "failed", detail: { code: "consent_required" } });
  }
}

/**
 * Waits for three chats with the local model, so that earlier requests to the provider have arrived. Returns the number
 * of chat requests that the provider has received.
 */
async function countArrivedRequests(): Promise<number> {
  for (let attempts = 0; attempts < 3; attempts += 1)
    await harness.chat(LOCAL_MODEL, "Hello").result;
  return harness.listChatRequests().length;
}

async function assertNothingIsSent(): Promise<void> {
  const before = await countArrivedRequests();
  expect(await askRemote("Hello").result).toMatchObject({ status: 403, code: "consent_required" });
  const turn = await ask("Hello");
  await harness.frontend.waitForQuestion(turn);
  await harness.frontend.respond(turn, false);
  expect((await harness.frontend.waitForEnd(turn)).end?.status).toBe("denied");
  expect(await countArrivedRequests()).toBe(before);
}

describe("a revocation of consent", () => {
  it("ends fifty running streams, and new streams start when consent is given again", async () => {
    const streams = await startFiftyStreams("Tell me #hang");
    await Promise.all(streams.chats.map(({ begun }) => begun));
    await harness.frontend.waitUntil("the streams to begin", () =>
      streams.turns.every(({ text }) => text !== ""),
    );
    await setConsent(false);
    await waitUntilEnded(streams);
    await expect
      .poll(() => harness.listChatRequests().map(({ state }) => state))
      .not.toContain("open");
    expect(
      harness
        .listChatRequests()
        .slice(-STREAMS)
        .map(({ state }) => state),
    ).toEqual(Array<string>(STREAMS).fill("left"));
    expect(await harness.countQueries()).toEqual({ active: 0, pending: 0 });
    await assertNothingIsSent();

    await setConsent(true);
    expect(await askRemote("Hello").readAnswer()).toBe("You said: Hello");
    expect((await harness.frontend.waitForEnd(await ask("Hello"))).text).toBe("You said: Hello");
  });

  it("ends requests that have no answer yet", async () => {
    const before = harness.listChatRequests().length;
    const streams = await startFiftyStreams("Tell me #hang-head");
    await harness.cloudProvider.until(() => harness.listChatRequests().length === before + STREAMS);
    await setConsent(false);
    await waitUntilEnded(streams);
    await expect
      .poll(() => harness.listChatRequests().map(({ state }) => state))
      .not.toContain("open");
    await assertNothingIsSent();
  });

  it("ends requests that wait for a retry", async () => {
    unwell = refusal(503, "later", { "retry-after": "2" });
    const before = harness.listChatRequests().length;
    const streams = await startFiftyStreams("Tell me");
    await harness.cloudProvider.until(() => harness.listChatRequests().length === before + STREAMS);
    await setConsent(false);
    await waitUntilEnded(streams);
    expect(await countArrivedRequests()).toBe(before + STREAMS);
    await assertNothingIsSent();
  });

  it("ends all concurrent requests, even those that are not sent yet", async () => {
    for (let round = 0; round < 5; round += 1) {
      await setConsent(true);
      const before = harness.listChatRequests().length;
      const chats = Array.from({ length: STREAMS }, () => askRemote("Tell me #hang"));
      const some = dice.between(1, STREAMS);
      await harness.cloudProvider.until(() => harness.listChatRequests().length >= before + some);
      await setConsent(false);
      const sent = await countArrivedRequests();
      const codes = await Promise.all(chats.map(async ({ result: end }) => (await end).code));
      expect(codes).toEqual(codes.map(() => "consent_required"));
      expect(await countArrivedRequests()).toBe(sent);
    }
    expect(await harness.countQueries()).toEqual({ active: 0, pending: 0 });
  });
});

describe("a cleared key", () => {
  it("ends the streams that use it; the local model still answers, and a new key can be used", async () => {
    const chats = Array.from({ length: 10 }, () => askRemote("Tell me #hang"));
    const turn = await ask("Tell me #hang");
    await Promise.all(chats.map(({ begun }) => begun));
    await harness.frontend.waitUntil("the stream to begin", () => turn.text !== "");
    await harness.frontend.call("Remote1", "ClearKey", "s", "cloud");
    const codes = await Promise.all(chats.map(async ({ result: end }) => (await end).code));
    expect(codes).toEqual(chats.map(() => "unauthorized"));
    const { end } = await harness.frontend.waitForEnd(turn);
    expect(end).toMatchObject({ status: "failed", detail: { code: "unauthorized" } });
    await expect
      .poll(() => harness.listChatRequests().map(({ state }) => state))
      .not.toContain("open");
    expect(await harness.chat(LOCAL_MODEL, "Hello").readAnswer()).toBe("You said: Hello");
    await harness.setKey();
    expect(await askRemote("Hello").readAnswer()).toBe("You said: Hello");
  });
});
