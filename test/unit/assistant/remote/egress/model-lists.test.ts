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

/** Returns the ids of the listed models; advances the virtual time while the call waits. */
async function idsOf(harness: ReturnType<typeof createEgressHarness>): Promise<string[]> {
  const listing = harness.service.models();
  await harness.clock.settle();
  await harness.clock.settle();
  await harness.clock.advance(2_000);
  return (await listing).map(({ id }) => id);
}

describe("the lists of models of all providers", () => {
  test("have full names, and are requested at most once in ten minutes", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [list("big", "text-embedding-3")];
    const listing = harness.service.models({ door: "http", uid: 1000 });
    await harness.clock.settle();
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
    await harness.clock.advance(9 * 60_000);
    expect(await idsOf(harness)).toHaveLength(2);
    expect(harness.http.calls).toHaveLength(1);
    expect(harness.log).toEqual(["ledger egress.send", "http /models"]);
    expect(harness.ledger.entries[0]?.fields).toEqual({
      provider: "acme",
      model: null,
      origin: "https://api.acme.test",
      kind: "models",
      classes: [],
      once: [],
      asker: { door: "http", uid: 1000 },
      bytes: 0,
      attempt: 1,
    });
    // The old list is returned at once, and the new list by later calls.
    harness.http.scripts = [list("new")];
    await harness.clock.advance(2 * 60_000);
    expect((await harness.service.models()).map(({ id }) => id)).toContain("remote:acme:big");
    await harness.clock.settle();
    expect(await idsOf(harness)).toEqual(["remote:acme:new"]);
  });

  test("omit a slow provider after two seconds, and include the provider once it has answered", async () => {
    const harness = createEgressHarness();
    const slow = { ...acme, id: "slow" };
    harness.directory.providers.push(slow);
    const answers = new EventEmitter();
    const late = once(answers, "list").then(() => list("late").pieces[0] ?? "");
    harness.http.scripts = [list("big"), { pieces: [late] }];
    const listing = harness.service.models();
    let isThere = false;
    void listing.then(() => (isThere = true));
    await harness.clock.advance(1_999);
    expect(isThere).toBe(false);
    await harness.clock.advance(1);
    expect((await listing).map(({ id }) => id)).toEqual(["remote:acme:big"]);
    answers.emit("list");
    await harness.clock.settle();
    expect(await idsOf(harness)).toEqual(["remote:acme:big", "remote:slow:late"]);
    expect(harness.http.calls).toHaveLength(2);
  });

  test("omit a provider that fails; Berth records the failure, and requests the provider's list again after half a minute", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [refused(401)];
    expect(await idsOf(harness)).toEqual([]);
    expect(harness.directory.statuses).toEqual(["failed"]);
    await harness.clock.advance(25_000);
    expect(await idsOf(harness)).toEqual([]);
    expect(harness.http.calls).toHaveLength(1);
    harness.http.scripts = [list("big")];
    await harness.clock.advance(5_000);
    expect(await idsOf(harness)).toEqual(["remote:acme:big"]);
  });

  test("omit a provider as soon as a later request for its list fails", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [list("big"), refused(500)];
    expect(await idsOf(harness)).toEqual(["remote:acme:big"]);
    await harness.clock.advance(11 * 60_000);
    await harness.service.models();
    await harness.clock.settle();
    expect(await idsOf(harness)).toEqual([]);
  });

  test("are not requested if the ledger cannot be written", async () => {
    const harness = createEgressHarness();
    harness.ledger.mode = "down";
    expect(await idsOf(harness)).toEqual([]);
    expect(harness.http.calls).toEqual([]);
    expect(harness.directory.statuses).toEqual([]);
  });

  test("are not requested while the user has not allowed sending prompts", async () => {
    const harness = createEgressHarness();
    harness.consent.set("prompt", false);
    harness.http.scripts = [list("big"), list("new")];
    expect(await idsOf(harness)).toEqual([]);
    expect([harness.log, harness.directory.asked]).toEqual([[], 0]);
    // A list that the user has requested from one provider is shown, but not renewed.
    await harness.service.listModels("acme", signal);
    await harness.clock.advance(11 * 60_000);
    expect(await idsOf(harness)).toEqual(["remote:acme:big"]);
    expect(harness.http.calls).toHaveLength(1);
    harness.consent.set("prompt", true);
    await idsOf(harness);
    expect(await idsOf(harness)).toEqual(["remote:acme:new"]);
  });

  test("drop a provider that was removed or that has another address", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [list("big"), list("other")];
    expect(await idsOf(harness)).toHaveLength(1);
    harness.directory.providers.splice(0, 1, { ...acme, baseUrl: "https://other.test" });
    expect(await idsOf(harness)).toEqual(["remote:acme:other"]);
    harness.directory.providers.splice(0);
    expect(await idsOf(harness)).toEqual([]);
  });

  test("are no longer awaited after the disposal, which aborts requests in progress", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [{ pieces: [never] }];
    const listing = harness.service.models();
    await harness.clock.settle();
    await harness.clock.settle();
    expect(harness.http.reading).toBe(1);
    await harness.service[Symbol.asyncDispose]();
    expect(harness.http.reading).toBe(0);
    expect(await listing).toEqual([]);
    expect(await harness.service.models()).toEqual([]);
    expect(harness.http.calls).toHaveLength(1);
  });
});

describe("the list of models of one provider, on request", () => {
  test.each([
    ["a bare list", [{ id: "a" }, { id: "b" }]],
    ["a list named models", { models: [{ name: "a" }, { name: "b" }] }],
    [
      "a list with invalid models",
      { data: [{ id: "a" }, {}, { id: "x\ny" }, { id: CANARY }, { id: "b" }, { id: "a" }] },
    ],
  ])("may have the form of %s", async (_, body) => {
    const harness = createEgressHarness();
    harness.http.scripts = [{ pieces: [JSON.stringify(body)] }];
    expect(await harness.service.listModels("acme", signal)).toEqual(["a", "b"]);
    expect(harness.log).toEqual(["ledger egress.send", "http /models"]);
    expect(await harness.service.model("remote:acme:a")).toMatchObject({ kind: "chat" });
  });

  test("fails with the same errors as a chat request", async () => {
    const harness = createEgressHarness();
    await expect(harness.service.listModels("other", signal)).rejects.toMatchObject({
      code: "not_found",
    });
    harness.http.scripts = [{ pieces: ["[1"] }];
    await expect(harness.service.listModels("acme", signal)).rejects.toMatchObject({
      code: "bad_response",
    });
    harness.http.scripts = [new AssistantError("model_not_found", "404")];
    await expect(harness.service.listModels("acme", signal)).rejects.toMatchObject({
      code: "bad_response",
      message: expect.stringContaining("no list of models"),
    });
    harness.directory.key = undefined;
    await expect(harness.service.listModels("acme", signal)).rejects.toMatchObject({
      code: "unauthorized",
    });
    expect(harness.log.filter((line) => line.startsWith("http"))).toHaveLength(2);
  });

  test("is requested each time, and replaces the models of this provider in the list of all models", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [list("a"), list("b")];
    await harness.service.listModels("acme", signal);
    expect(await harness.service.listModels("acme", signal)).toEqual(["b"]);
    expect(await idsOf(harness)).toEqual(["remote:acme:b"]);
    expect(harness.http.calls).toHaveLength(2);
  });

  test("is not requested twice at the same time", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [unreachable];
    await expect(harness.service.listModels("acme", signal)).rejects.toBe(unreachable);
    expect(harness.http.calls).toHaveLength(1);
  });

  test("is aborted when its caller aborts", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [{ pieces: [never] }];
    const leaving = new AbortController();
    const listing = harness.service.listModels("acme", leaving.signal);
    listing.catch(() => {});
    await harness.clock.settle();
    await harness.clock.settle();
    leaving.abort(new Error("gone"));
    await expect(listing).rejects.toThrow("gone");
    expect(harness.http.calls).toHaveLength(1);
  });
});

test("a provider's list has at most 20,000 models", async () => {
  const harness = createEgressHarness();
  harness.http.scripts = [list(...Array.from({ length: 20_001 }, (_, number) => `m${number}`))];
  const ids = await harness.service.listModels("acme", signal);
  expect([ids.length, ids.at(-1)]).toEqual([20_000, "m19999"]);
});

test("the list of a removed provider is dropped, even if the provider is added again", async () => {
  const harness = createEgressHarness();
  harness.http.scripts = [list("big"), list("other")];
  expect(await idsOf(harness)).toEqual(["remote:acme:big"]);
  harness.directory.providers.length = 0;
  expect(await idsOf(harness)).toEqual([]);
  harness.directory.providers.push(acme);
  expect(await idsOf(harness)).toEqual(["remote:acme:other"]);
});

describe("a list that arrives slowly", () => {
  test("is awaited for half a minute at most", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [{ pieces: ['{"data":[', never] }];
    const listing = harness.service.listModels("acme", signal);
    listing.catch(() => {});
    await harness.clock.advance(29_999);
    expect(harness.http.reading).toBe(1);
    await harness.clock.advance(1);
    await expect(listing).rejects.toMatchObject({
      code: "timeout",
      message: "the provider acme has not sent its list of models within 30 s",
    });
    expect(harness.http.reading).toBe(0);
    expect(harness.directory.statuses.at(-1)).toBe("unreachable");
  });

  test("is not requested again for a while, and no caller waits for it", async () => {
    const harness = createEgressHarness();
    harness.http.scripts = [{ pieces: [never] }];
    expect(await idsOf(harness)).toEqual([]);
    await harness.clock.advance(30_000);
    expect(harness.http.reading).toBe(0);
    const before = harness.clock.now();
    expect(await harness.service.models()).toEqual([]);
    expect(harness.clock.now()).toBe(before);
    expect(harness.http.calls).toHaveLength(1);
  });
});

test("a remote model is described without a request to its provider", async () => {
  const harness = createEgressHarness();
  expect(await harness.service.model("remote:acme:big")).toMatchObject({
    id: "remote:acme:big",
    contextTokens: undefined,
  });
  expect(await harness.service.model("remote:other:big")).toBeUndefined();
  expect(await harness.service.model("tiny")).toBeUndefined();
  expect(await harness.service.health()).toEqual({ engine: "remote", ledgerOk: true });
  expect(harness.log).toEqual([]);
});
