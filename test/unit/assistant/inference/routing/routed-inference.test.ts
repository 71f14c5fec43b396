import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  AssistantError,
  type AssistantErrorCode,
  assistantErrorCodes,
} from "../../../../../src/assistant/assistant-error.ts";
import { isRemoteModel } from "../../../../../src/assistant/inference/routing/port.ts";
import { RoutedInference } from "../../../../../src/assistant/inference/routing/routed-inference.ts";
import type {
  AnswerEvent,
  EmbedRequest,
  GenerateRequest,
  ModelInfo,
} from "../../../../../src/assistant/inference/service-port.ts";
import type { LogFields } from "../../../../../src/base/logger.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { forever, ScriptedService } from "../../../../support/scripted-service.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/** The errors after which the next model of an alias is tried, as docs/inference-api.md lists them. */
const notNow: ReadonlySet<AssistantErrorCode> = new Set([
  "unreachable",
  "rate_limited",
  "provider_failed",
  "timeout",
  "no_model",
  "model_not_found",
  "model_unusable",
  "insufficient_memory",
  "queue_full",
  "engine_failed",
]);

function harness(aliases: Readonly<Record<string, readonly string[]>> = {}) {
  const local = new ScriptedService();
  const remote = new ScriptedService();
  remote.known = [];
  const clock = new VirtualClock();
  const logged: LogFields[] = [];
  const logger = { ...silentLogger, info: (fields: LogFields) => void logged.push(fields) };
  const written = new Map(Object.entries(aliases));
  const routed = new RoutedInference({ local, remote, aliases: () => written, logger, clock });
  return { local, remote, clock, logged, written, routed };
}

function asks(model: string | undefined): GenerateRequest {
  return {
    model,
    prompts: [{ kind: "text", text: "hi" }],
    n: 1,
    sampling: {},
    maxTokens: undefined,
    stop: [],
    priority: "interactive",
    guide: { kind: "none" },
    toolChoice: { kind: "none" },
    parallelToolCalls: false,
    isStreamed: true,
    keepAliveMs: undefined,
  };
}

const embeds = (model: string | undefined): EmbedRequest => ({
  model,
  texts: ["hi"],
  priority: "interactive",
  keepAliveMs: undefined,
});

const never = new AbortController().signal;

async function gather(events: AsyncIterable<AnswerEvent>) {
  const seen: AnswerEvent[] = [];
  try {
    for await (const event of events) seen.push(event);
    return { seen, error: undefined };
  } catch (error) {
    return { seen, error };
  }
}

const fails = (code: AssistantErrorCode) => () =>
  (async function* (): AsyncGenerator<AnswerEvent> {
    yield* [];
    throw new AssistantError(code, `it is ${code}`);
  })();

describe("a model name", () => {
  test.each([
    [undefined, "local"],
    ["tiny", "local"],
    ["remote", "local"],
    ["remote:a:b", "remote"],
    // A name that begins with `remote:` but is not valid gets the error of the service for remote models.
    ["remote:a", "remote"],
    ["remote:", "remote"],
  ])("such as %j is passed unchanged to the service for %s models", async (model, side) => {
    const { local, remote, routed } = harness();
    await gather(routed.generate(asks(model), never));
    await routed.embed(embeds(model), never);
    const [asked, other] = side === "local" ? [local, remote] : [remote, local];
    expect(asked.requests.map((request) => request.model)).toEqual([model]);
    expect(asked.embeds.map((request) => request.model)).toEqual([model]);
    expect([...other.requests, ...other.embeds]).toEqual([]);
    expect(routed.candidates(model)).toEqual([model]);
  });

  test("that is an alias takes precedence over a local model, from the next request on", async () => {
    const { local, remote, routed, written } = harness({ tiny: ["remote:a:b"] });
    await gather(routed.generate(asks("tiny"), never));
    written.set("tiny", ["other"]);
    await gather(routed.generate(asks("tiny"), never));
    written.clear();
    await gather(routed.generate(asks("tiny"), never));
    expect(remote.requests.map(({ model }) => model)).toEqual(["remote:a:b"]);
    expect(local.requests.map(({ model }) => model)).toEqual(["other", "tiny"]);
  });

  test("that every JavaScript object has as a property, such as constructor, is not an alias", () => {
    expect(harness().routed.candidates("constructor")).toEqual(["constructor"]);
  });
});

function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new Error(`there is no item ${index}`);
  return item;
}

interface Outcome {
  readonly isRemote: boolean;
  /** The number of events before the answer ends or fails. */
  readonly events: number;
  /** The error code; undefined if the request succeeds. */
  readonly code: AssistantErrorCode | undefined;
}

const outcome: fc.Arbitrary<Outcome> = fc.record({
  isRemote: fc.boolean(),
  events: fc.integer({ min: 0, max: 3 }),
  code: fc.oneof(
    fc.constant(undefined),
    fc.constantFrom(...notNow),
    fc.constantFrom(...assistantErrorCodes),
  ),
});

describe("an alias with several models", () => {
  test("tries them in order, yields the events of one model only, and ends with the error of the last model that it tried", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(outcome, { minLength: 1, maxLength: 8 }),
        fc.boolean(),
        async (outcomes, isEmbed) => {
          const names = outcomes.map(({ isRemote }, index) =>
            isRemote ? `remote:p:${index}` : `local-${index}`,
          );
          const { local, remote, routed, logged } = harness({ best: names });
          const asked: string[] = [];
          for (const side of [local, remote]) {
            const outcomeOf = (model = "") => {
              expect(isRemoteModel(model)).toBe(side === remote);
              asked.push(model);
              return at(outcomes, names.indexOf(model));
            };
            side.script = ({ model }) =>
              (async function* (): AsyncGenerator<AnswerEvent> {
                const { events, code } = outcomeOf(model);
                for (let index = 0; index < events; index += 1) {
                  if (index === 0) yield { type: "accepted", model: model ?? "", ledgerSeq: 1 };
                  else yield { type: "text", choice: 0, text: `${model} ${index}` };
                }
                if (code) throw new AssistantError(code, `${model} fails`);
              })();
            side.embedder = async ({ model }) => {
              const { code } = outcomeOf(model);
              if (code) throw new AssistantError(code, `${model} fails`);
              return { model: model ?? "", ledgerSeq: 1, vectors: [], tokens: [] };
            };
          }

          const { seen, error } = isEmbed
            ? await gather(
                (async function* (): AsyncGenerator<AnswerEvent> {
                  const { model } = await routed.embed(embeds("best"), never);
                  yield { type: "accepted", model, ledgerSeq: 1 };
                })(),
              )
            : await gather(routed.generate(asks("best"), never));

          const goesOn = ({ events, code }: Outcome) =>
            (isEmbed || events === 0) && code !== undefined && notNow.has(code);
          const stop = outcomes.findIndex((one) => !goesOn(one));
          const last = stop === -1 ? outcomes.length - 1 : stop;
          expect(asked).toEqual(names.slice(0, last + 1));
          expect(logged).toEqual(outcomes.slice(0, last).map(({ code }) => ({ code })));
          const { code, events } = at(outcomes, last);
          const name = names[last] ?? "";
          if (code === undefined) expect(error).toBeUndefined();
          else expect(error).toMatchObject({ code, message: `${name} fails` });
          if (!isEmbed) {
            expect(seen).toHaveLength(events);
            for (const event of seen) expect(JSON.stringify(event)).toContain(name);
          }
          expect([local.running, remote.running]).toEqual([0, 0]);
        },
      ),
      { numRuns: 400 },
    );
  });

  test("tries the next model only after the error codes that docs/inference-api.md lists", async () => {
    const went: AssistantErrorCode[] = [];
    for (const code of assistantErrorCodes) {
      const { local, remote, routed } = harness({ best: ["remote:a:b", "tiny"] });
      remote.script = fails(code);
      const { error } = await gather(routed.generate(asks("best"), never));
      if (local.requests.length === 1) went.push(code);
      expect(error === undefined).toBe(local.requests.length === 1);
    }
    expect(went.toSorted()).toEqual([...notNow].toSorted());
  });

  test("never tries another model after an error without a code", async () => {
    const { local, remote, routed } = harness({ best: ["remote:a:b", "tiny"] });
    remote.script = () => {
      throw new TypeError("a mistake");
    };
    const { error } = await gather(routed.generate(asks("best"), never));
    expect(error).toBeInstanceOf(TypeError);
    expect(local.requests).toEqual([]);
  });

  test("passes all other fields of the request to each model", async () => {
    const { local, remote, routed } = harness({ best: ["remote:a:b", "tiny"] });
    remote.script = fails("rate_limited");
    const egress = { classes: ["prompt", "files"], allowedOnce: [] } as const;
    const request = { ...asks("best"), egress, passthrough: { user: "ann" }, maxTokens: 3 };
    await gather(routed.generate(request, never));
    expect(remote.requests).toEqual([{ ...request, model: "remote:a:b" }]);
    expect(local.requests).toEqual([{ ...request, model: "tiny" }]);
  });

  test("tries no other model when the caller aborts", async () => {
    const { local, remote, routed } = harness({ best: ["remote:a:b", "tiny"] });
    const caller = new AbortController();
    remote.script = (_, signal) =>
      (async function* (): AsyncGenerator<AnswerEvent> {
        yield* [];
        await forever(signal).catch(() => {});
        throw new AssistantError("unreachable", "the connection is gone");
      })();
    const over = gather(routed.generate(asks("best"), caller.signal));
    await expect.poll(() => remote.running).toBe(1);
    caller.abort();
    expect((await over).error).toMatchObject({ code: "unreachable" });
    expect([remote.running, local.requests.length]).toEqual([0, 0]);
  });

  test("cancels the request to the answering model when the caller stops reading", async () => {
    const { remote, routed } = harness({ best: ["remote:a:b"] });
    for await (const event of routed.generate(asks("best"), never)) {
      if (event.type === "text") break;
    }
    expect([remote.running, remote.pulled]).toEqual([0, 3]);
  });

  test("starts nothing before the first event is requested", async () => {
    const { remote, routed } = harness({ best: ["remote:a:b"] });
    await routed.generate(asks("best"), never).return();
    expect(remote.requests).toEqual([]);
  });
});

const failing = (code: AssistantErrorCode) => async () => {
  throw new AssistantError(code, "no list");
};

const info = (id: string, over: Partial<ModelInfo> = {}): ModelInfo => ({
  id,
  aliases: [],
  createdSeconds: 5,
  kind: "chat",
  state: "idle",
  contextTokens: 100,
  embeddingLength: undefined,
  ...over,
});

describe("the list of local and remote models", () => {
  test("contains the local models, the aliases and the remote models", async () => {
    const { local, remote, routed } = harness({
      fast: ["default"],
      vectors: ["gone", "hub/org/embedder:q8"],
      best: ["remote:a:b", "tiny"],
      lost: ["nobody"],
    });
    remote.known = [info("remote:a:b", { contextTokens: 9000 })];
    const models = await routed.models();
    expect(models.map(({ id }) => id)).toEqual([
      "tiny",
      "hub/org/embedder:q8",
      "fast",
      "vectors",
      "best",
      "lost",
      "remote:a:b",
    ]);
    const [tiny, , fast, vectors, best, lost] = models;
    expect(fast).toEqual({ ...local.known[0], id: "fast", aliases: [] });
    expect(vectors).toMatchObject({ kind: "embedding", embeddingLength: 8, aliases: [] });
    expect(best).toMatchObject({ contextTokens: 9000, createdSeconds: 5 });
    expect(lost).toMatchObject({ kind: "chat", state: "idle", contextTokens: undefined });
    expect(tiny?.aliases).toEqual(["default"]);
    for (const model of models) {
      const { id, aliases, kind } = (await routed.model(model.id)) ?? info("none");
      expect({ id, aliases, kind }).toEqual({
        id: model.id,
        aliases: model.aliases,
        kind: model.kind,
      });
    }
    expect(await routed.model("unheard-of")).toBeUndefined();
  });

  test("shows an alias in place of a local model that it hides", async () => {
    const { remote, routed } = harness({ tiny: ["remote:a:b"], default: ["remote:a:b"] });
    remote.known = [info("remote:a:b", { contextTokens: 9000 })];
    const models = await routed.models();
    expect(models.map(({ id, aliases }) => [id, aliases])).toEqual([
      ["tiny", []],
      ["hub/org/embedder:q8", []],
      ["default", []],
      ["remote:a:b", []],
    ]);
    expect(models[0]).toMatchObject({ contextTokens: 9000 });
    expect(await routed.model("tiny")).toMatchObject({ id: "tiny", contextTokens: 9000 });
  });

  test("contains the local models if the providers cannot be listed, and the remote models if the local ones cannot", async () => {
    const { local, remote, routed } = harness({ best: ["tiny", "remote:a:b"] });
    remote.known = [info("remote:a:b")];
    const ids = async () => (await routed.models()).map(({ id }) => id);
    const localModels = local.models.bind(local);
    local.models = failing("no_model");
    local.model = failing("no_model");
    expect(await ids()).toEqual(["best", "remote:a:b"]);
    expect(await routed.model("best")).toMatchObject({ id: "best", contextTokens: 100 });
    await expect(routed.model("tiny")).rejects.toMatchObject({ code: "no_model" });
    remote.models = failing("unreachable");
    await expect(routed.models()).rejects.toMatchObject({ code: "no_model" });
    local.models = localModels;
    expect(await ids()).toEqual(["tiny", "hub/org/embedder:q8", "best"]);
  });

  test("does not wait for a slow provider", async () => {
    const { clock, remote, routed } = harness();
    remote.models = () => new Promise(() => {});
    const models = routed.models();
    await clock.advance(5_000);
    expect(await models).toHaveLength(2);
  });
});

test("the reported health is that of the local inference service", async () => {
  const { local, routed } = harness();
  local.healthAnswer = { engine: "upstream", ledgerOk: false };
  expect(await routed.health()).toEqual({ engine: "upstream", ledgerOk: false });
});
