import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import type { AnswerEvent } from "../../../../../src/assistant/inference/service-port.ts";
import {
  type AnswerScript,
  type AttemptScript,
  chatRequest,
  createEgressHarness,
  cut,
  data,
  delta,
  never,
  usage,
} from "../../../../support/egress-harness.ts";
import { joinText } from "../../../../support/service-harness.ts";

async function answerTo(turn: AttemptScript, request = chatRequest) {
  const harness = createEgressHarness();
  harness.http.scripts = [turn];
  const { events, error } = await harness.run(request);
  expect([harness.http.reading, harness.consent.watching]).toEqual([0, 0]);
  expect(harness.http.calls).toHaveLength(1);
  return { events, error, statuses: harness.directory.statuses };
}

const streamed = (...pieces: readonly string[]): AnswerScript => ({ pieces });
const a = delta({ content: "a" });
const stop = delta({}, "stop");
const done = data("[DONE]");
const counted = data({ choices: [], usage });
const document = (message: unknown, more: Record<string, unknown> = {}) =>
  JSON.stringify({ choices: [{ index: 0, message, finish_reason: "stop" }], usage, ...more });

const half = (escape: string) =>
  `data: {"choices":[{"index":0,"delta":{"content":"${escape}"}}]}\n\n`;

describe("an answer in a provider's variant of OpenAI's format", () => {
  const wanted = { text: "a", reason: "stop", tokens: 4 };
  const cases: Readonly<Record<string, readonly [AttemptScript, Partial<typeof wanted>?]>> = {
    "the convention's form": [streamed(a, stop, counted, done)],
    "comments in between": [
      streamed(": OPENROUTER PROCESSING\n\n", a, ": x\n\n", stop, counted, done),
    ],
    "no usage": [streamed(a, stop, done), { tokens: 0 }],
    "usage with the finish": [
      streamed(a, data({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage }), done),
    ],
    "growing usage with every chunk": [
      streamed(
        data({
          choices: [{ index: 0, delta: { content: "a" }, finish_reason: null }],
          usage: { prompt_tokens: 9, completion_tokens: 1 },
        }),
        stop,
        counted,
        done,
      ),
    ],
    "usage at Groq": [streamed(a, stop, data({ choices: [], x_groq: { usage } }), done)],
    "usage null until the end": [
      streamed(
        data({ choices: [{ index: 0, delta: { content: "a" } }], usage: null }),
        stop,
        counted,
        done,
      ),
    ],
    "no [DONE] after the finish": [streamed(a, stop, counted)],
    "cut after the finish": [{ pieces: [a, stop, cut] }, { tokens: 0 }],
    "silent after the finish": [{ pieces: [a, stop, never] }, { tokens: 0 }],
    "open after [DONE]": [{ pieces: [a, stop, counted, done, never] }],
    "[DONE] without a finish": [streamed(a, done), { tokens: 0 }],
    "a duplicate finish": [streamed(a, stop, stop, counted, done)],
    "text after the finish": [streamed(stop, a, counted, done)],
    "chunks after [DONE]": [streamed(a, stop, counted, done, a)],
    "no space after the colon": [
      streamed(`${a}${stop}${counted}${done}`.replaceAll("data: ", "data:")),
    ],
    "lines of CR and LF": [streamed(`${a}${stop}${counted}${done}`.replaceAll("\n", "\r\n"))],
    "a byte order mark": [streamed(`\uFEFF${a}`, stop, counted, done)],
    "named events": [streamed(`event: message\nid: 1\n${a}`, stop, counted, done)],
    "with another content type": [
      { ...streamed(a, stop, counted, done), contentType: "text/plain" },
    ],
    "delta missing in one": [
      streamed(a, data({ choices: [{ index: 0, finish_reason: "stop" }] }), counted, done),
    ],
    "delta null": [
      streamed(a, data({ choices: [{ index: 0, delta: null }] }), stop, counted, done),
    ],
    "content null, and a role alone": [
      streamed(delta({ role: "assistant", content: null }), a, stop, counted, done),
    ],
    "content in parts": [
      streamed(delta({ content: [{ type: "text", text: "a" }] }), stop, counted, done),
    ],
    "no index": [
      streamed(
        data({ choices: [{ delta: { content: "a" }, finish_reason: "stop" }] }),
        counted,
        done,
      ),
    ],
    "choices that were not requested": [
      streamed(a, data({ choices: [{ index: 7, delta: { content: "x" } }] }), stop, counted, done),
    ],
    "events that are empty objects": [streamed(data({}), a, data({}), stop, counted, done)],
    "error null with each chunk": [
      streamed(
        data({ error: null, choices: [{ index: 0, delta: { content: "a" } }] }),
        stop,
        counted,
        done,
      ),
    ],
    "one document in place of a stream": [
      { pieces: [document({ role: "assistant", content: "a" })], contentType: "application/json" },
    ],
    "a document with a stream's content type": [streamed(`\n  ${document({ content: "a" })}`)],
    "a document with a byte order mark": [streamed(`\uFEFF${document({ content: "a" })}`)],
    "another finish after the first": [
      streamed(a, delta({}, "length"), stop, counted, done),
      { reason: "length" },
    ],
    length: [streamed(a, delta({}, "length"), counted, done), { reason: "length" }],
    max_tokens: [streamed(a, delta({}, "MAX_TOKENS"), counted, done), { reason: "length" }],
    ...Object.fromEntries(
      ["end_turn", "eos", "content_filter", "stop_sequence", "function_call", "tool_calls"].map(
        (reason) => [reason, [streamed(a, delta({}, reason), counted, done)] as const],
      ),
    ),
  };

  test.each(Object.entries(cases))(
    "is accepted in the case: %s",
    async (_, [turn, differs = {}]) => {
      const { events, error, statuses } = await answerTo(turn);
      expect(error).toBeUndefined();
      const { text, reason, tokens } = { ...wanted, ...differs };
      expect(joinText(events)).toBe(text);
      expect(events.at(-1)).toMatchObject({ type: "end", reason, completionTokens: tokens });
      expect(events.at(-2)).toMatchObject({ type: "started", promptTokens: tokens === 0 ? 0 : 9 });
      expect(statuses).toEqual(["ok"]);
    },
  );

  test.each(["reasoning_content", "reasoning"])("may contain reasoning in %s", async (name) => {
    const details = { completion_tokens_details: { reasoning_tokens: 3 } };
    const { events } = await answerTo(
      streamed(
        delta({ [name]: "hm", content: null }),
        a,
        stop,
        data({ choices: [], usage: { ...usage, ...details } }),
      ),
    );
    expect(events[1]).toEqual({ type: "reasoning", choice: 0, text: "hm" });
    expect(events.at(-1)).toMatchObject({ reasoningTokens: 3 });
  });

  test("may split a surrogate pair over two chunks", async () => {
    const { events } = await answerTo(
      streamed(half("x\\ud83d"), half("\\ude00y"), half("\\ud83d"), stop, done),
    );
    const texts = events.flatMap((event) => (event.type === "text" ? [event.text] : []));
    expect(texts).toEqual(["x", "😀y", "\u{FFFD}"]);
  });
});

const call = (fields: Record<string, unknown>) => delta({ tool_calls: [fields] });
const named = (name: string, text = "") => ({ function: { name, arguments: text } });
const more = (text: string) => ({ function: { arguments: text } });

describe("tool calls in a provider's answer", () => {
  const cases: Readonly<Record<string, readonly string[]>> = {
    "the convention's form": [
      call({ index: 0, id: "c1", type: "function", ...named("one") }),
      call({ index: 0, ...more('{"a"') }),
      call({ index: 0, ...more(":1}") }),
      call({ index: 1, id: "c2", ...named("two", "{}") }),
    ],
    "id and name with every delta": [
      call({ index: 0, id: "c1", ...named("one", '{"a"') }),
      call({ index: 0, id: "c1", ...named("one", ":1}") }),
      call({ index: 1, id: "c2", ...named("two", "{}") }),
    ],
    "no index": [
      call({ id: "c1", ...named("one", '{"a"') }),
      call(more(":1}")),
      call({ id: "c2", ...named("two", "{}") }),
    ],
    "index 0 for all": [
      call({ index: 0, id: "c1", ...named("one", '{"a":1}') }),
      call({ index: 0, id: "c2", ...named("two", "{}") }),
    ],
    "neither index nor id": [call(named("one", '{"a":1}')), call(named("two", "{}"))],
    "no id": [
      call({ index: 0, ...named("one", '{"a":1}') }),
      call({ index: 1, ...named("two", "{}") }),
    ],
    "arguments as objects": [
      delta({
        tool_calls: [
          { id: "c1", function: { name: "one", arguments: { a: 1 } } },
          { id: "c2", function: { name: "two", arguments: {} } },
        ],
      }),
    ],
    "indices that begin at 1": [
      call({ index: 1, id: "c1", ...named("one", '{"a":1}') }),
      call({ index: 2, id: "c2", ...named("two", "{}") }),
    ],
  };

  test.each(Object.entries(cases))("are read in this form: %s", async (_, pieces) => {
    for (const reason of ["tool_calls", "stop", "function_call"]) {
      const { events, error } = await answerTo(streamed(...pieces, delta({}, reason), done));
      expect(error).toBeUndefined();
      expectWellFormed(events);
      expect(callsOf(events)).toEqual([
        { name: "one", text: '{"a":1}' },
        { name: "two", text: "{}" },
      ]);
      expect(events.at(-1)).toMatchObject({ type: "end", reason: "tool_calls" });
    }
  });

  test("are accepted as one document that is not streamed", async () => {
    const tool_calls = [{ id: "c1", type: "function", ...named("one", "{}") }];
    const { events } = await answerTo(streamed(document({ content: null, tool_calls })));
    expectWellFormed(events);
    expect(callsOf(events)).toEqual([{ name: "one", text: "{}" }]);
  });
});

describe("invalid answers of providers", () => {
  const cases: Readonly<Record<string, readonly [AttemptScript, string]>> = {
    "a stream that ends too early": [streamed(a), "cut_off"],
    "a connection that ends too early": [{ pieces: [a, cut] }, "cut_off"],
    "nothing at all": [streamed(), "cut_off"],
    "comments only": [streamed(": a\n\n"), "cut_off"],
    "an end without an answer": [streamed(done), "bad_response"],
    "a page": [streamed("<!doctype html><p>hello"), "bad_response"],
    "an event that is not JSON": [streamed("data: {\n\n"), "bad_response"],
    "a document that is not JSON": [streamed("{"), "bad_response"],
    "a document without choices": [streamed("{}"), "bad_response"],
    "an event without an end": [{ pieces: [`data: ${"x".repeat(17 * 2 ** 20)}`] }, "bad_response"],
    "an error in the middle": [
      streamed(a, data({ error: { message: "boom", code: 502 } })),
      "provider_failed",
    ],
    "an error of a limit": [
      streamed(a, data({ error: { message: "slow down", type: "rate_limit_error" } })),
      "rate_limited",
    ],
    "an error that is a text": [streamed(data({ error: "boom" })), "provider_failed"],
    "an error in a choice": [
      streamed(data({ choices: [{ index: 0, error: { message: "boom", code: 429 } }] })),
      "rate_limited",
    ],
    "an error without an envelope": [streamed(data({ message: "boom" })), "provider_failed"],
    "an error as a document": [streamed('{"error":{"message":"boom","code":401}}'), "unauthorized"],
    "an error in a list": [
      streamed('[{"error":{"message":"boom","code":400}}]'),
      "invalid_request",
    ],
    "an end that is an error": [streamed(a, delta({}, "error")), "provider_failed"],
    "silence in the middle": [{ pieces: [a, new AssistantError("timeout", "silent")] }, "timeout"],
  };

  test.each(Object.entries(cases))("are reported as errors: %s", async (_, [turn, code]) => {
    const { events, error, statuses } = await answerTo(turn);
    expect(error).toMatchObject({ code });
    expect(events.some(({ type }) => type === "end")).toBe(false);
    expect(statuses).toHaveLength(1);
    if (error instanceof Error) expect(error.message).not.toMatch(/[\n\r]/);
  });

  test("cause an error with the provider's message in one line", async () => {
    const error = { message: `bo\nom ${"x".repeat(1000)}`, code: 500 };
    const { error: thrown } = await answerTo(streamed(data({ error })));
    const { message } = thrown instanceof Error ? thrown : new Error("none");
    expect(message).toMatch(/^acme ended the answer with an error: bo om xxx/);
    expect(message.length).toBeLessThan(400);
  });
});

const chunk = (index: number, said: Record<string, unknown>, reason: string | null) =>
  data({ choices: [{ index, delta: said, finish_reason: reason }] });

test("the events of an answer are the same however it is split into chunks, and are well formed", async () => {
  const word = fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 });
  const noise = fc.constantFrom(": OPENROUTER PROCESSING\n\n", data({}), delta({}), "\n", "");
  const step = fc.record({
    choice: fc.nat(1),
    kind: fc.constantFrom("content", "reasoning", "reasoning_content"),
    word,
    noise,
  });
  const ends = fc.constantFrom("stop", "length", "end_turn", "eos");
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 20 }),
      fc.tuple(ends, ends),
      fc.record({ usage: fc.boolean(), done: fc.boolean(), crlf: fc.boolean(), bom: fc.boolean() }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 }),
      async (steps, reasons, varied, sizes) => {
        let text = varied.bom ? "\uFEFF" : "";
        const wanted = ["", ""];
        const thoughts = ["", ""];
        for (const { choice, kind, word: said, noise: between } of steps) {
          (kind === "content" ? wanted : thoughts)[choice] += said;
          text += chunk(choice, { [kind]: said }, null) + between;
        }
        for (const [choice, reason] of reasons.entries()) text += chunk(choice, {}, reason);
        if (varied.usage) text += counted;
        if (varied.done) text += done;
        if (varied.crlf) text = text.replaceAll("\n", "\r\n");
        const { events, error } = await answerTo(
          { pieces: cutUp(Buffer.from(text), sizes) },
          { ...chatRequest, n: 2 },
        );
        expect(error).toBeUndefined();
        expectWellFormed(events);
        expect([joinText(events, 0), joinText(events, 1)]).toEqual(wanted);
        const thought = [0, 1].map((choice) =>
          events
            .map((event) =>
              event.type === "reasoning" && event.choice === choice ? event.text : "",
            )
            .join(""),
        );
        expect(thought).toEqual(thoughts);
        const total = events.reduce(
          (sum, event) => sum + (event.type === "end" ? event.completionTokens : 0),
          0,
        );
        expect(total).toBe(varied.usage ? 4 : 0);
      },
    ),
    { numRuns: 60 },
  );
});

function cutUp(bytes: Buffer, sizes: readonly number[]): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

/** Checks the order of events that InferenceService documents. */
function expectWellFormed(events: readonly AnswerEvent[]): void {
  expect(events[0]?.type).toBe("accepted");
  expect(events.filter(({ type }) => type === "accepted")).toHaveLength(1);
  expect(events.filter(({ type }) => type === "started")).toHaveLength(1);
  const ended = new Set<number>();
  const calls = new Map<number, number>();
  for (const event of events) {
    if (event.type === "accepted" || event.type === "started") continue;
    expect(ended.has(event.choice)).toBe(false);
    if (event.type === "end") ended.add(event.choice);
    if (event.type !== "tool_call") continue;
    const begun = calls.get(event.choice) ?? 0;
    if (event.start) {
      expect(event.index).toBe(begun);
      expect(event.start.id).not.toBe("");
      calls.set(event.choice, begun + 1);
    } else expect(event.index).toBeLessThan(begun);
  }
  expect(events.at(-1)?.type).toBe("end");
}

function callsOf(events: readonly AnswerEvent[]) {
  const calls: { name: string; text: string }[] = [];
  for (const event of events) {
    if (event.type !== "tool_call") continue;
    if (event.start) calls.push({ name: event.start.name, text: "" });
    const told = calls[event.index];
    if (told) told.text += event.arguments;
  }
  return calls;
}

test("an answer that is one document is limited to 4 MiB, because parsing it blocks other work", async () => {
  const filled = (bytes: number) => ({
    content: "x".repeat(bytes - document({ content: "" }).length),
  });
  const longest = await answerTo(streamed(document(filled(4 * 2 ** 20))));
  expect(longest.error).toBeUndefined();
  const { error, statuses } = await answerTo(streamed(document(filled(4 * 2 ** 20 + 1))));
  expect(error).toMatchObject({
    code: "bad_response",
    message: expect.stringContaining("4 MiB"),
  });
  expect(statuses).toEqual(["failed"]);
});

test("an answer with embeddings is limited to the bytes that its texts can need", async () => {
  const harness = createEgressHarness();
  harness.http.scripts = [cut];
  for (const texts of [["a"], Array.from({ length: 2_048 }, () => "a")]) {
    const embedding = harness.service.embed(
      { ...chatRequest, texts },
      new AbortController().signal,
    );
    embedding.catch(() => {});
    await harness.clock.advance(5_000);
    await expect(embedding).rejects.toMatchObject({ code: "cut_off" });
    expect(harness.http.calls.at(-1)?.limits.bytesMax).toBe((texts.length / 4 + 1) * 2 ** 20);
  }
});
