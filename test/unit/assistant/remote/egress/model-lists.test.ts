import { EventEmitter, once } from "node:events";
import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import {
  acme,
  CANARY,
  createEgressHarness,
  never,
  refused,
  unreachable,
} from "../../../../support/egress-harness.ts";

const signal = new AbortController().signal;
const list = (...ids: readonly string[]) => ({
  pieces: [JSON.stringify({ data: ids.map((id) => ({ id, created: 5, context_length: 100 })) })],
});

/** Returns the ids; moves the virtual time as far as the call waits. */
async function idsOf(world: ReturnType<typeof createEgressHarness>): Promise<string[]> {
  const listing = world.service.models();
  await world.clock.settle();
  await world.clock.settle();
  await world.clock.advance(2_000);
  return (await listing).map(({ id }) => id);
}

describe("lists of models", () => {
  test("have full names, and are requested once in ten minutes", async () => {
    const world = createEgressHarness();
    world.http.scripts = [list("big", "text-embedding-3")];
    const listing = world.service.models();
    await world.clock.settle();
    expect(await listing).toEqual([
      {
        id: "remote:acme:big",
        aliases: [],
        createdSeconds: 5,
        kind: "chat",
        state: "idle",
        contextTokens: 100,
        embeddingLength: undefined,
      },
      expect.objectContaining({ id: "remote:acme:text-embedding-3", kind: "embedding" }),
    ]);
    await world.clock.advance(9 * 60_000);
    expect(await idsOf(world)).toHaveLength(2);
    expect(world.http.calls).toHaveLength(1);
    expect(world.log).toEqual(["ledger egress.send", "http /models"]);
    expect(world.ledger.entries[0]?.fields).toEqual({
      provider: "acme",
      model: null,
      origin: "https://api.acme.test",
      kind: "models",
      classes: [],
      once: [],
      bytes: 0,
      attempt: 1,
    });
    // The old list is returned at once, and the new one from then on.
    world.http.scripts = [list("new")];
    await world.clock.advance(2 * 60_000);
    expect((await world.service.models()).map(({ id }) => id)).toContain("remote:acme:big");
    await world.clock.settle();
    expect(await idsOf(world)).toEqual(["remote:acme:new"]);
  });

  test("leave out a slow provider after two seconds, and include it once it has answered", async () => {
    const world = createEgressHarness();
    const slow = { ...acme, id: "slow" };
    world.book.providers.push(slow);
    const answers = new EventEmitter();
    const late = once(answers, "list").then(() => list("late").pieces[0] ?? "");
    world.http.scripts = [list("big"), { pieces: [late] }];
    const listing = world.service.models();
    let isThere = false;
    void listing.then(() => (isThere = true));
    await world.clock.advance(1_999);
    expect(isThere).toBe(false);
    await world.clock.advance(1);
    expect((await listing).map(({ id }) => id)).toEqual(["remote:acme:big"]);
    answers.emit("list");
    await world.clock.settle();
    expect(await idsOf(world)).toEqual(["remote:acme:big", "remote:slow:late"]);
    expect(world.http.calls).toHaveLength(2);
  });

  test("leave out a provider that fails, note its status, and ask it again after half a minute", async () => {
    const world = createEgressHarness();
    world.http.scripts = [refused(401)];
    expect(await idsOf(world)).toEqual([]);
    expect(world.book.statuses).toEqual(["failed"]);
    await world.clock.advance(25_000);
    expect(await idsOf(world)).toEqual([]);
    expect(world.http.calls).toHaveLength(1);
    world.http.scripts = [list("big")];
    await world.clock.advance(5_000);
    expect(await idsOf(world)).toEqual(["remote:acme:big"]);
  });

  test("leave out a provider from its first failure on", async () => {
    const world = createEgressHarness();
    world.http.scripts = [list("big"), refused(500)];
    expect(await idsOf(world)).toEqual(["remote:acme:big"]);
    await world.clock.advance(11 * 60_000);
    await world.service.models();
    await world.clock.settle();
    expect(await idsOf(world)).toEqual([]);
  });

  test("are not requested without a ledger, and the other models stay listed", async () => {
    const world = createEgressHarness();
    world.ledger.mode = "down";
    expect(await idsOf(world)).toEqual([]);
    expect(world.http.calls).toEqual([]);
    expect(world.book.statuses).toEqual([]);
  });

  test("forget a provider that was removed or has another address", async () => {
    const world = createEgressHarness();
    world.http.scripts = [list("big"), list("other")];
    expect(await idsOf(world)).toHaveLength(1);
    world.book.providers.splice(0, 1, { ...acme, baseUrl: "https://other.test" });
    expect(await idsOf(world)).toEqual(["remote:acme:other"]);
    world.book.providers.splice(0);
    expect(await idsOf(world)).toEqual([]);
  });

  test("disposal aborts a request in progress", async () => {
    const world = createEgressHarness();
    world.http.scripts = [{ pieces: [never] }];
    const listing = world.service.models();
    await world.clock.settle();
    await world.clock.settle();
    expect(world.http.reading).toBe(1);
    await world.service[Symbol.asyncDispose]();
    expect(world.http.reading).toBe(0);
    expect(await listing).toEqual([]);
    expect(await world.service.models()).toEqual([]);
    expect(world.http.calls).toHaveLength(1);
  });
});

describe("the list of one provider, on request", () => {
  test.each([
    ["a bare list", [{ id: "a" }, { id: "b" }]],
    ["a list named models", { models: [{ name: "a" }, { name: "b" }] }],
    [
      "a list with invalid models",
      { data: [{ id: "a" }, {}, { id: "x\ny" }, { id: CANARY }, { id: "b" }, { id: "a" }] },
    ],
  ])("%s", async (_, body) => {
    const world = createEgressHarness();
    world.http.scripts = [{ pieces: [JSON.stringify(body)] }];
    expect(await world.service.listModels("acme", signal)).toEqual(["a", "b"]);
    expect(world.log).toEqual(["ledger egress.send", "http /models"]);
    expect(await world.service.model("remote:acme:a")).toMatchObject({ kind: "chat" });
  });

  test("fails with the errors of a request", async () => {
    const world = createEgressHarness();
    await expect(world.service.listModels("other", signal)).rejects.toMatchObject({
      code: "not_found",
    });
    world.http.scripts = [{ pieces: ["[1"] }];
    await expect(world.service.listModels("acme", signal)).rejects.toMatchObject({
      code: "bad_response",
    });
    world.http.scripts = [new AssistantError("model_not_found", "404")];
    await expect(world.service.listModels("acme", signal)).rejects.toMatchObject({
      code: "bad_response",
      message: expect.stringContaining("no list of models"),
    });
    world.book.key = undefined;
    await expect(world.service.listModels("acme", signal)).rejects.toMatchObject({
      code: "unauthorized",
    });
    expect(world.log.filter((line) => line.startsWith("http"))).toHaveLength(2);
  });

  test("is requested each time, and updates the common list", async () => {
    const world = createEgressHarness();
    world.http.scripts = [list("a"), list("b")];
    await world.service.listModels("acme", signal);
    expect(await world.service.listModels("acme", signal)).toEqual(["b"]);
    expect(await idsOf(world)).toEqual(["remote:acme:b"]);
    expect(world.http.calls).toHaveLength(2);
  });

  test("is not requested twice at the same time", async () => {
    const world = createEgressHarness();
    world.http.scripts = [unreachable];
    await expect(world.service.listModels("acme", signal)).rejects.toBe(unreachable);
    expect(world.http.calls).toHaveLength(1);
  });

  test("is ended by an abort", async () => {
    const world = createEgressHarness();
    world.http.scripts = [{ pieces: [never] }];
    const leaving = new AbortController();
    const listing = world.service.listModels("acme", leaving.signal);
    listing.catch(() => {});
    await world.clock.settle();
    await world.clock.settle();
    leaving.abort(new Error("gone"));
    await expect(listing).rejects.toThrow("gone");
    expect(world.http.calls).toHaveLength(1);
  });
});

test("has at most 20,000 models", async () => {
  const world = createEgressHarness();
  world.http.scripts = [list(...Array.from({ length: 20_001 }, (_, number) => `m${number}`))];
  const ids = await world.service.listModels("acme", signal);
  expect([ids.length, ids.at(-1)]).toEqual([20_000, "m19999"]);
});

test("of a removed provider is forgotten, even if the provider is added again", async () => {
  const world = createEgressHarness();
  world.http.scripts = [list("big"), list("other")];
  expect(await idsOf(world)).toEqual(["remote:acme:big"]);
  world.book.providers.length = 0;
  expect(await idsOf(world)).toEqual([]);
  world.book.providers.push(acme);
  expect(await idsOf(world)).toEqual(["remote:acme:other"]);
});

describe("a list that arrives slowly", () => {
  test("is waited for half a minute at most", async () => {
    const world = createEgressHarness();
    world.http.scripts = [{ pieces: ['{"data":[', never] }];
    const listing = world.service.listModels("acme", signal);
    listing.catch(() => {});
    await world.clock.advance(29_999);
    expect(world.http.reading).toBe(1);
    await world.clock.advance(1);
    await expect(listing).rejects.toMatchObject({
      code: "timeout",
      message: "the provider acme has not sent its list of models within 30 s",
    });
    expect(world.http.reading).toBe(0);
    expect(world.book.statuses.at(-1)).toBe("unreachable");
  });

  test("is then not requested for a while, and no caller waits for it", async () => {
    const world = createEgressHarness();
    world.http.scripts = [{ pieces: [never] }];
    expect(await idsOf(world)).toEqual([]);
    await world.clock.advance(30_000);
    expect(world.http.reading).toBe(0);
    const before = world.clock.now();
    expect(await world.service.models()).toEqual([]);
    expect(world.clock.now()).toBe(before);
    expect(world.http.calls).toHaveLength(1);
  });
});

test("a model is described without a request", async () => {
  const world = createEgressHarness();
  expect(await world.service.model("remote:acme:big")).toMatchObject({
    id: "remote:acme:big",
    contextTokens: undefined,
  });
  expect(await world.service.model("remote:other:big")).toBeUndefined();
  expect(await world.service.model("tiny")).toBeUndefined();
  expect(world.service.health()).toEqual({ engine: "remote", ledgerOk: true });
  expect(world.log).toEqual([]);
});
