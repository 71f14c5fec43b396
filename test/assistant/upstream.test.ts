import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openLocalInference } from "../../src/assistant/daemons/local-inference.ts";
import type {
  AnswerEvent,
  GenerateRequest,
  InferenceService,
} from "../../src/assistant/inference/service-port.ts";
import { UpstreamInference } from "../../src/assistant/inference/upstream/upstream-inference.ts";
import { openLedger } from "../../src/assistant/ledger/ledger.ts";
import { Cleanup } from "../../src/base/cleanup.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { loadAssistantConfig } from "../../src/config/assistant-config.ts";
import { AssistantProcess } from "../support/assistant-process.ts";
import { FakeLedger } from "../support/fake-ledger.ts";
import { SHORT_WAIT } from "../support/inference-http-harness.ts";
import { collect, plainRequest } from "../support/service-harness.ts";

/**
 * What the tests open is closed after them. They compare two services: `upstream` uses the assistant process `system`,
 * and `direct` has an inference engine in this process.
 */
const harness = new Cleanup();
let system: AssistantProcess;
let direct: InferenceService;
let upstream: UpstreamInference;
const ledger = new FakeLedger();
const signal = new AbortController().signal;

beforeAll(async () => {
  system = harness.use(await AssistantProcess.start(["--engine", "stub"]));
  const dataDir = await mkdtemp(join(tmpdir(), "berth-upstream-"));
  harness.defer(() => rm(dataDir, { recursive: true, force: true }));
  const parts = { clock: systemClock, logger: silentLogger };
  const own = harness.use(await openLedger({ dir: dataDir, version: "0.0.0", ...parts }));
  const config = loadAssistantConfig({
    flags: { dataDir, engine: "stub" },
    environment: {},
    workingDirectory: dataDir,
    isTerminal: false,
  });
  direct = (await openLocalInference(config, { ledger: own, ...parts }, harness)).service;
  upstream = harness.use(new UpstreamInference({ url: system.ready.url, ledger, ...parts }));
});

afterAll(() => harness[Symbol.asyncDispose]());

const chat: GenerateRequest = {
  ...plainRequest,
  toolChoice: { kind: "auto" },
  prompts: [
    {
      kind: "chat",
      messages: [
        { role: "system", content: "Answer shortly." },
        { role: "user", content: "What is a berth? \u2693" },
      ],
      tools: [],
      variables: {},
    },
  ],
};

const schema = {
  type: "object",
  properties: { name: { type: "string" }, count: { type: "integer" } },
  required: ["name", "count"],
  additionalProperties: false,
};

const tools = [{ name: "add", description: "Adds.", parameters: schema }];

const requests: Readonly<Record<string, GenerateRequest>> = {
  "a chat": chat,
  "a chat as one document": { ...chat, isStreamed: false },
  "several choices, each with logprobs": {
    ...chat,
    n: 3,
    sampling: { temperature: 0, seed: 7, logprobs: 3 },
  },
  "a limit": { ...chat, maxTokens: 4 },
  "a schema": { ...chat, guide: { kind: "json_schema", name: "it", schema, strict: true } },
  "a schema, held until it is checked": {
    ...chat,
    isStreamed: false,
    guide: { kind: "json_schema", name: undefined, schema, strict: false },
  },
  "any object": { ...chat, guide: { kind: "json_object" } },
  "a required tool": {
    ...chat,
    toolChoice: { kind: "function", name: "add" },
    prompts: chat.prompts.map((prompt) => (prompt.kind === "chat" ? { ...prompt, tools } : prompt)),
  },
  "plain prompts": {
    ...chat,
    n: 2,
    stop: ["stub"],
    prompts: [
      { kind: "text", text: "once upon" },
      { kind: "tokens", tokens: [1, 2, 3] },
    ],
  },
};

test.each(Object.entries(requests))(
  "a service that uses the assistant's system instance yields the same events as a service with its own engine: %s",
  async (_, request) => {
    const theirs = comparable(await collect(direct.generate(request, signal)));
    const ours = comparable(await collect(upstream.generate(request, signal)));
    expect(ours.length).toBeGreaterThan(2);
    expect(ours).toEqual(theirs);
  },
);

/**
 * Removes everything that differs from run to run: ids, tokens that an earlier request left in the cache, and the
 * order of choices that are answered concurrently.
 */
function comparable(events: readonly AnswerEvent[]): AnswerEvent[] {
  const plain: AnswerEvent[] = events.map((event) => {
    if (event.type === "accepted") return { ...event, ledgerSeq: 0 };
    if (event.type === "started") return { ...event, cachedTokens: 0 };
    if (event.type === "tool_call" && event.start)
      return { ...event, start: { ...event.start, id: "call" } };
    return event;
  });
  return plain.toSorted((one, other) => place(one) - place(other));
}

function place(event: AnswerEvent): number {
  return "choice" in event ? event.choice : -1;
}

const refused: Readonly<Record<string, GenerateRequest>> = {
  "an unknown model": { ...chat, model: "nobody" },
  "a schema that cannot be enforced": {
    ...chat,
    guide: { kind: "json_schema", name: undefined, schema: { not: {} }, strict: false },
  },
  "a tool's schema that cannot be enforced": {
    ...chat,
    toolChoice: { kind: "required" },
    prompts: chat.prompts.map((prompt) =>
      prompt.kind === "chat"
        ? { ...prompt, tools: [{ name: "add", parameters: { type: "object", not: {} } }] }
        : prompt,
    ),
  },
  "a prompt beyond the context": {
    ...chat,
    prompts: [{ kind: "text", text: "word ".repeat(200_000) }],
  },
};

test.each(Object.entries(refused))(
  "a service that uses the assistant's system instance refuses with the same error as a service with its own engine: %s",
  async (_, request) => {
    const [theirs, ours] = await Promise.all(
      [direct, upstream].map((service) =>
        collect(service.generate(request, signal)).then(
          () => ({}),
          (error: unknown) => error,
        ),
      ),
    );
    expect(ours).toMatchObject({ code: expect.any(String), message: expect.any(String) });
    const { code, message, param } = Object(theirs);
    // In an error of the assistant's system instance, the parameter is called `prompt` as in its HTTP API. The
    // service's own errors call it `prompts`, so the test renames it before it compares both.
    const wanted = typeof param === "string" ? param.replace(/^prompt\b/, "prompts") : param;
    expect(ours).toMatchObject({ code, message, param: wanted });
  },
);

test("a service that uses the assistant's system instance returns the same vectors, models and health as a service with its own engine", async () => {
  const request = { ...chat, texts: ["a berth", "a ship at its berth", "\u2693"] };
  const [theirs, ours] = [
    await direct.embed(request, signal),
    await upstream.embed(request, signal),
  ];
  expect({ ...ours, ledgerSeq: 0 }).toEqual({ ...theirs, ledgerSeq: 0 });
  expect(ours.tokens.every((count) => count > 0)).toBe(true);
  expect(await knownTo(upstream)).toEqual(await knownTo(direct));
  expect(await upstream.health()).toEqual({ ...(await direct.health()), upstream: "ok" });
});

/** Returns everything that the service reports about its models, except their start times. */
async function knownTo(service: InferenceService) {
  return (await service.models()).map((model) => ({ ...model, createdSeconds: 0 }));
}

test("an abort during an answer ends the request in the assistant's system instance", async () => {
  const leaving = new AbortController();
  const endless = { ...chat, maxTokens: Number.POSITIVE_INFINITY };
  const seen: AnswerEvent[] = [];
  await expect(async () => {
    for await (const event of upstream.generate(endless, leaving.signal)) {
      seen.push(event);
      if (event.type === "text") leaving.abort(new Error("enough"));
    }
  }).rejects.toThrow("enough");
  expect(seen.some(({ type }) => type === "end")).toBe(false);
  await expect
    .poll(async () => (await system.state()).models.map(({ active }) => active), SHORT_WAIT)
    .toEqual([0]);
});

test("a request fails if the assistant's system instance is not running, or is killed during the answer", async () => {
  const entries = ledger.entries.length;
  const prompts = Array.from({ length: 8 }, (_, n) => ({ kind: "text", text: `${n}` }) as const);
  const events = upstream.generate({ ...chat, prompts, n: 8 }, signal);
  expect((await events.next()).value).toMatchObject({ type: "accepted", model: "stub" });
  await system.stop("SIGKILL");
  await expect(collect(events)).rejects.toMatchObject({ code: "engine_failed" });
  await expect(collect(upstream.generate(chat, signal))).rejects.toMatchObject({
    code: "no_model",
  });
  // Both requests were allowed before they failed, so the ledger has an entry for each of them.
  expect(ledger.entries).toHaveLength(entries + 2);
  await system.start();
});
