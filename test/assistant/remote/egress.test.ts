import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import type { GenerateRequest } from "../../../src/assistant/inference/service-port.ts";
import { ProviderAddresses } from "../../../src/assistant/remote/address/provider-addresses.ts";
import { RemoteInference } from "../../../src/assistant/remote/egress/remote-inference.ts";
import { ProviderHttpClient } from "../../../src/assistant/remote/provider-http/provider-http-client.ts";
import { silentLogger } from "../../../src/base/logger.ts";
import { CountingClock } from "../../support/counting-clock.ts";
import { CountingConsent, chatRequest } from "../../support/egress-harness.ts";
import { FakeLedger } from "../../support/fake-ledger.ts";
import { SHORT_WAIT } from "../../support/inference-http-harness.ts";
import { openDescriptors } from "../../support/open-descriptors.ts";
import { ScriptedProviderDirectory } from "../../support/provider/scripted-provider-directory.ts";
import { refusal } from "../../support/provider/scripted-response.ts";
import { TestProvider } from "../../support/provider/test-provider.ts";
import { Dice } from "../../support/random.ts";
import { collect, joinText } from "../../support/service-harness.ts";

const KEY = "sk-test-0123456789abcdef";
const request: GenerateRequest = { ...chatRequest, model: "remote:there:test-model" };
const signal = new AbortController().signal;

let provider: TestProvider;
let connections: ProviderHttpClient;
let remote: RemoteInference;
let consent: CountingConsent;
let ledger: FakeLedger;
let directory: ScriptedProviderDirectory;
let clock: CountingClock;

beforeEach(async () => {
  provider = await TestProvider.start({ tls: true, key: KEY });
  clock = new CountingClock();
  const addresses = new ProviderAddresses({ ownPorts: () => new Set() });
  connections = new ProviderHttpClient({ addresses, clock, extraAuthorities: [provider.ca] });
  consent = new CountingConsent(["prompt"]);
  ledger = new FakeLedger();
  directory = new ScriptedProviderDirectory();
  directory.add("there", provider.baseUrl, KEY);
  const logger = silentLogger;
  remote = new RemoteInference({
    http: connections,
    providers: directory,
    consent,
    ledger,
    clock,
    logger,
  });
});

afterEach(async () => {
  await remote[Symbol.asyncDispose]();
  await connections[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
  if (clock.pending + consent.watching > 0) throw new Error("a timer or a watcher was left behind");
});

const attempts = () => ledger.entries.filter(({ name }) => name === "egress.send").length;

describe("answers over TLS", () => {
  test("arrive over one reused connection, and each request is in the ledger when the provider receives it", async () => {
    for (let round = 1; round <= 5; round++) {
      const events = await collect(remote.generate(request, signal));
      expect(joinText(events)).toBe("You said: hi");
      expect(events.at(-1)).toMatchObject({ type: "end", reason: "stop" });
      expect(attempts()).toBe(round);
    }
    const embedded = await remote.embed({ ...request, texts: ["a", "bb"] }, signal);
    expect(embedded.vectors.map((vector) => Math.hypot(...vector))).toEqual([
      expect.closeTo(1),
      expect.closeTo(1),
    ]);
    expect(await remote.listModels("there", signal)).toEqual(["test-model", "test-embedder"]);
    expect(provider.connectionsTotal).toBe(1);
  });

  test("may contain tool calls, or be one document instead of a stream", async () => {
    provider.next({
      type: "chat",
      toolCalls: [{ id: "c1", name: "look", arguments: '{"a":1}' }],
      finishReason: "tool_calls",
    });
    const events = await collect(remote.generate(request, signal));
    expect(events.find(({ type }) => type === "tool_call")).toMatchObject({
      start: { id: "c1", name: "look" },
      arguments: '{"a":1}',
    });
    const message = { role: "assistant", content: "whole" };
    const body = { choices: [{ index: 0, message, finish_reason: "stop" }] };
    provider.next({ type: "status", status: 200, body });
    expect(joinText(await collect(remote.generate(request, signal)))).toBe("whole");
    expect(provider.connectionsTotal).toBe(1);
  });
});

describe("a provider's failure", () => {
  test.each([
    [401, "unauthorized", 1],
    [404, "model_not_found", 1],
    [429, "rate_limited", 1],
    [500, "provider_failed", 1],
    [502, "provider_failed", 3],
    [503, "provider_failed", 3],
  ])("the status %i causes the error %s after %i requests", async (status, code, times) => {
    const turn = refusal(status, `no, ${KEY}`, status === 429 ? { "retry-after": "7" } : {});
    provider.next(turn, turn, turn);
    const error: unknown = await collect(remote.generate(request, signal)).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(AssistantError);
    expect(error).toMatchObject({ code, retryAfterSeconds: status === 429 ? 7 : undefined });
    expect(String(error)).not.toContain(KEY);
    expect([provider.requests.length, attempts()]).toEqual([times, times]);
  });

  test("a request is retried if its connection is reset before the response head, but not if it is cut later", async () => {
    provider.next({ type: "reset" }, { type: "status", status: 503 });
    expect(joinText(await collect(remote.generate(request, signal)))).toBe("You said: hi");
    expect([provider.requests.length, attempts()]).toEqual([3, 3]);
    provider.next({ type: "chat", text: ["a", "b"], afterwards: { after: 1, do: "cut" } });
    await expect(collect(remote.generate(request, signal))).rejects.toMatchObject({
      code: "cut_off",
    });
    expect([provider.requests.length, attempts()]).toEqual([4, 4]);
  });

  test("a parameter is renamed if the provider refuses it and names its replacement", async () => {
    provider.next(
      refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'."),
    );
    const events = await collect(remote.generate({ ...request, maxTokens: 9 }, signal));
    expect(joinText(events)).toBe("You said: hi");
    expect(provider.requests[1]?.body).toMatchObject({ max_completion_tokens: 9 });
    expect(attempts()).toBe(2);
  });
});

describe("the revocation of consent", () => {
  test.each(["before the head", "in mid-stream"])(
    "ends the running request at the provider (%s)",
    async (when) => {
      provider.next(
        when === "before the head"
          ? { type: "hang" }
          : { type: "chat", text: ["a"], afterwards: { after: 1, do: "hang" } },
      );
      const failing = collect(remote.generate(request, signal));
      failing.catch(() => {});
      await provider.until(({ requests }) => requests.length === 1);
      consent.set("prompt", false);
      await expect(failing).rejects.toMatchObject({ code: "consent_required" });
      await provider.until(({ requests }) => requests[0]?.state === "left");
      expect(provider.requests).toHaveLength(1);
    },
  );

  test("while the request waits for a retry prevents the retry", async () => {
    provider.next(refusal(503, "later"));
    const failing = collect(remote.generate(request, signal));
    failing.catch(() => {});
    await provider.until(({ requests }) => requests[0]?.state === "answered");
    consent.set("prompt", false);
    await expect(failing).rejects.toMatchObject({ code: "consent_required" });
    expect(provider.requests).toHaveLength(1);
  });
});

test("200 streams that end in different ways leave no connection, descriptor or timer behind", async () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  const dice = new Dice(seed);
  const text = ["one ", "two ", "three "];
  const before = openDescriptors();
  // Each request's message tells the test provider how to behave, so that concurrent streams can behave
  // differently.
  await using plain = await TestProvider.start({
    script: ({ text: body }) => {
      const [, way, after] = /(\w+) after (\d)/.exec(body) ?? [];
      const afterwards = { after: Number(after) };
      if (way === "cut") return { type: "chat", text, afterwards: { ...afterwards, do: "cut" } };
      if (way === "hang") return { type: "chat", text, afterwards: { ...afterwards, do: "hang" } };
      if (way === "silence") return { type: "hang" };
      return way === "refusal" ? refusal(401, "no") : { type: "chat", text };
    },
  });
  directory.add("plain", plain.baseUrl);
  const ends = new Set<string>();
  const one = async () => {
    const way = dice.pick(["answer", "left", "cut", "hang", "silence", "refusal"]);
    const content = `${way} after ${dice.between(0, 3)}`;
    const leaving = new AbortController();
    const isEndless = way === "hang" || way === "silence";
    const timer = setTimeout(() => leaving.abort(new Error("gone")), dice.between(20, 60));
    if (!isEndless) clearTimeout(timer);
    const asked: GenerateRequest = {
      ...request,
      model: "remote:plain:any",
      prompts: [{ kind: "chat", messages: [{ role: "user", content }], tools: [], variables: {} }],
    };
    try {
      for await (const event of remote.generate(asked, leaving.signal))
        if (way === "left" && event.type === "text") break;
      ends.add(way);
    } catch (error) {
      ends.add(`${way}: ${error instanceof AssistantError ? error.code : String(error)}`);
    }
  };
  for (let round = 0; round < 10; round++) await Promise.all(Array.from({ length: 20 }, one));
  expect([...ends].toSorted(), `seed ${seed}`).toEqual([
    "answer",
    "cut: cut_off",
    "hang: Error: gone",
    "left",
    "refusal: unauthorized",
    "silence: Error: gone",
  ]);
  expect([clock.pending, consent.watching], `seed ${seed}`).toEqual([0, 0]);
  await connections.closeIdle("plain");
  await plain.until(({ connections: open }) => open === 0);
  await plain[Symbol.asyncDispose]();
  await expect.poll(openDescriptors, SHORT_WAIT).toBeLessThanOrEqual(before);
});
