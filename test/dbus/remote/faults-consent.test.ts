import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ToldTurn } from "../../support/overlay-caller.ts";
import { faultyTurn } from "../../support/provider/faulty-turns.ts";
import { refusal, type Turn } from "../../support/provider/turns.ts";
import { Dice } from "../../support/random.ts";
import { FAR, type HttpChat, NEAR, RemoteDesk } from "../../support/remote-desk.ts";
import { SEED } from "../../support/sampling.ts";

const dice = new Dice(SEED);
/** As many as the overlay runs, and the rest by the port. */
const BY_THE_BUS = 4;
const STREAMS = 50;

let desk: RemoteDesk;
let unwell: Turn | undefined;

beforeAll(async () => {
  process.stdout.write(`BERTH_SEED=${SEED}\n`);
  desk = await RemoteDesk.open({ script: (request) => unwell ?? faultyTurn(request) });
});
afterAll(() => desk?.[Symbol.asyncDispose]());
beforeEach(async () => {
  unwell = undefined;
  await consent(true);
});

const consent = (isAllowed: boolean) =>
  desk.person.call("Remote1", "SetConsent", "sb", "prompt", isAllowed);
const far = (text: string) => desk.chat(FAR, text);
const ask = (text: string) => desk.person.ask(text, { lane: "chat", model_hint: FAR });

interface Fifty {
  readonly chats: readonly HttpChat[];
  readonly turns: readonly ToldTurn[];
}

async function fifty(text: string): Promise<Fifty> {
  const chats = Array.from({ length: STREAMS - BY_THE_BUS }, () => far(text));
  const turns = await Promise.all(Array.from({ length: BY_THE_BUS }, () => ask(text)));
  return { chats, turns };
}

const over = (turn: ToldTurn) => turn.end !== undefined;

async function endedBy({ chats, turns }: Fifty): Promise<void> {
  const [codes] = await Promise.all([
    Promise.all(chats.map(async ({ end }) => (await end).code)),
    desk.person.until("the turns end", () => turns.every(over)),
  ]);
  expect(codes).toEqual(codes.map(() => "consent_required"));
  for (const { end, specs } of turns) {
    expect(specs).toEqual([]);
    expect(end).toMatchObject({ status: "failed", detail: { code: "consent_required" } });
  }
}

/** What was on its way to the provider has arrived. */
async function arrived(): Promise<number> {
  for (let looks = 0; looks < 3; looks += 1) await desk.chat(NEAR, "Hello").end;
  return desk.chats().length;
}

async function nothingLeaves(): Promise<void> {
  const before = await arrived();
  expect(await far("Hello").end).toMatchObject({ status: 403, code: "consent_required" });
  const turn = await ask("Hello");
  await desk.person.asked(turn);
  await desk.person.respond(turn, false);
  expect((await desk.person.ended(turn)).end?.status).toBe("denied");
  expect(await arrived()).toBe(before);
}

describe("consent that is taken back", () => {
  it("ends fifty streams in their middle, and given again is as before", async () => {
    const streams = await fifty("Tell me #hang");
    await Promise.all(streams.chats.map(({ begun }) => begun));
    await desk.person.until("they begin", () => streams.turns.every(({ text }) => text !== ""));
    await consent(false);
    await endedBy(streams);
    await expect.poll(() => desk.chats().map(({ state }) => state)).not.toContain("open");
    expect(
      desk
        .chats()
        .slice(-STREAMS)
        .map(({ state }) => state),
    ).toEqual(Array<string>(STREAMS).fill("left"));
    expect(await desk.queries()).toEqual({ active: 0, pending: 0 });
    await nothingLeaves();

    await consent(true);
    expect(await far("Hello").said()).toBe("You said: Hello");
    expect((await desk.person.ended(await ask("Hello"))).text).toBe("You said: Hello");
  });

  it("ends those that have no answer yet", async () => {
    const before = desk.chats().length;
    const streams = await fifty("Tell me #hang-head");
    await desk.cloud.until(() => desk.chats().length === before + STREAMS);
    await consent(false);
    await endedBy(streams);
    await expect.poll(() => desk.chats().map(({ state }) => state)).not.toContain("open");
    await nothingLeaves();
  });

  it("ends those that wait until they are tried again", async () => {
    unwell = refusal(503, "later", { "retry-after": "2" });
    const before = desk.chats().length;
    const streams = await fifty("Tell me");
    await desk.cloud.until(() => desk.chats().length === before + STREAMS);
    await consent(false);
    await endedBy(streams);
    expect(await arrived()).toBe(before + STREAMS);
    await nothingLeaves();
  });

  it("stands between whatever was asked at the same time", async () => {
    for (let round = 0; round < 5; round += 1) {
      await consent(true);
      const before = desk.chats().length;
      const chats = Array.from({ length: STREAMS }, () => far("Tell me #hang"));
      const some = dice.between(1, STREAMS);
      await desk.cloud.until(() => desk.chats().length >= before + some);
      await consent(false);
      const sent = await arrived();
      const codes = await Promise.all(chats.map(async ({ end }) => (await end).code));
      expect(codes).toEqual(codes.map(() => "consent_required"));
      expect(await arrived()).toBe(sent);
    }
    expect(await desk.queries()).toEqual({ active: 0, pending: 0 });
  });
});

describe("a key that is cleared", () => {
  it("ends the streams that go by it; others are served, and so are they with another key", async () => {
    const chats = Array.from({ length: 10 }, () => far("Tell me #hang"));
    const turn = await ask("Tell me #hang");
    await Promise.all(chats.map(({ begun }) => begun));
    await desk.person.until("it begins", () => turn.text !== "");
    await desk.person.call("Remote1", "ClearKey", "s", "cloud");
    const codes = await Promise.all(chats.map(async ({ end }) => (await end).code));
    expect(codes).toEqual(chats.map(() => "unauthorized"));
    const { end } = await desk.person.ended(turn);
    expect(end).toMatchObject({ status: "failed", detail: { code: "unauthorized" } });
    await expect.poll(() => desk.chats().map(({ state }) => state)).not.toContain("open");
    expect(await desk.chat(NEAR, "Hello").said()).toBe("You said: Hello");
    await desk.giveKey();
    expect(await far("Hello").said()).toBe("You said: Hello");
  });
});
