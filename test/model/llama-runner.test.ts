import { describe, expect, it } from "vitest";
import type { Sampling } from "../../src/assistant/inference/runner.ts";
import { plainSampling, runStreams, setUpRunner, startStream } from "./llama-runner-setup.ts";

const runner = setUpRunner({ preset: "tiny", options: { endsAfter: null } });

describe("decoding steps of many streams", () => {
  it("decode the next tokens of all streams in one batch, except the first token of an answer, which is decoded alone", async () => {
    const streams = await Promise.all(
      [0, 1, 2, 3, 4, 5, 6].map((sequence) => startStream(runner(), sequence, `Hello ${sequence}`)),
    );
    for (let step = 0; step < 30; step++) {
      // The new stream begins when the others have ten tokens.
      if (step === 10)
        streams.push(await startStream(runner(), 7, "Hello 7", { grammar: 'root ::= "a"*' }));
      const before = runner().batches;
      const outcomes = await runner().step(streams);
      expect(outcomes.map(({ kind }) => kind)).toEqual(streams.map(() => "token"));
      const batches = { 0: 7, 10: 2 }[step] ?? 1;
      expect(runner().batches.count).toBe(before.count + batches);
      expect(runner().batches.last).toBe({ 0: 1, 10: 7 }[step] ?? streams.length);
    }
    await Promise.all(streams.map((stream) => stream.close()));
  });

  it("are split into several batches if these cost less than one, and the answers stay the same", async () => {
    const answers = async () => {
      const streams = [];
      for (const sequence of [0, 1, 2, 3, 4]) {
        const options = { temperature: 0, logprobs: 1 };
        streams.push(await startStream(runner(), sequence, `Prompt ${sequence}`, options));
      }
      const before = runner().batches.count;
      const texts = (await runStreams(runner(), streams, 10)).map(({ text }) => text);
      return { texts, batches: runner().batches.count - before };
    };
    const together = await answers();
    // In the first step, each of the five streams is decoded in a batch of its own. The other nine steps are one batch
    // each.
    expect(together.batches).toBe(5 + 9);
    runner().adoptBatchCosts([
      [1, 1],
      [2, 9],
      [4, 3],
      [8, 30],
    ]);
    const split = await answers();
    // With these costs for batches of one, two, four and eight tokens, each of the nine steps is split into a batch of
    // four tokens and a batch of one.
    expect(split.batches).toBe(5 + 18);
    expect(split.texts).toEqual(together.texts);
    runner().adoptBatchCosts([]);
  });

  it("give each stream the same tokens as when it runs alone", async () => {
    const prompts = ["One", "A second one", "And a third"];
    const alone: string[] = [];
    for (const [sequence, prompt] of prompts.entries()) {
      const stream = await startStream(runner(), sequence, prompt, { temperature: 0 });
      alone.push(...(await runStreams(runner(), [stream], 20)).map(({ text }) => text));
    }
    const streams = [];
    for (const [sequence, prompt] of prompts.entries()) {
      streams.push(await startStream(runner(), sequence, prompt, { temperature: 0 }));
    }
    const together = await runStreams(runner(), streams, 20);
    expect(together.map(({ text }) => text)).toEqual(alone);
  });
});

async function seeded(seed: number): Promise<string | undefined> {
  const [answer] = await runStreams(
    runner(),
    [await startStream(runner(), 0, "Tell", { seed })],
    24,
  );
  return answer?.text;
}

/** Generates an answer, and returns the number of its tokens that repeat an earlier token. */
async function repeats(sampling: Partial<Sampling>): Promise<number> {
  const stream = await startStream(runner(), 0, "Round", { temperature: 0, ...sampling });
  const [answer] = await runStreams(runner(), [stream], 60);
  const tokens = answer?.tokens ?? [];
  return tokens.length - new Set(tokens).size;
}

describe("an answer of the model", () => {
  it("is the same for the same seed, and differs for another seed", async () => {
    expect(await seeded(1)).toBe(await seeded(1));
    expect(await seeded(1)).not.toBe(await seeded(2));
  });

  it("consists of whole characters", async () => {
    // Many of the characters that the grammar allows have no token, so the model generates their three bytes singly.
    const grammar = "root ::= [\\u4e00-\\u9fff]{12}";
    const stream = await startStream(runner(), 0, "Write", { grammar, temperature: 1 });
    const texts: string[] = [];
    for (let ended = false; !ended; ) {
      const [outcome] = await runner().step([stream]);
      if (!outcome || outcome.kind === "failed") throw outcome?.error;
      texts.push(outcome.text);
      ended = outcome.kind === "end";
    }
    await stream.close();
    expect(texts.join("")).toMatch(/^[\u4e00-\u9fff]{12}$/);
    expect(texts.some((text) => text === "")).toBe(true);
    // Each character was emitted as a whole, when the last of its bytes was generated.
    for (const text of texts) expect(text).toMatch(/^[\u4e00-\u9fff]*$/);
  });

  it("follows its grammar to the end, and then ends", async () => {
    const grammar = 'root ::= "{\\"answer\\":" ("true" | "false") "}"';
    const [answer] = await runStreams(
      runner(),
      [await startStream(runner(), 0, "Is it?", { grammar })],
      100,
    );
    expect(answer?.ended).toBe(true);
    expect([{ answer: true }, { answer: false }]).toContainEqual(JSON.parse(answer?.text ?? ""));
  });

  it("fails without effect on other streams if its grammar cannot be parsed", async () => {
    const broken = await startStream(runner(), 0, "One", { grammar: "root ::= (" });
    const whole = await startStream(runner(), 1, "Two");
    const outcomes = await runner().step([broken, whole]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["failed", "token"]);
    await Promise.all([broken.close(), whole.close()]);
  });

  it("has logprobs of its tokens", async () => {
    const stream = await startStream(runner(), 0, "Tell", { temperature: 0, logprobs: 5 });
    const [outcome] = await runner().step([stream]);
    if (outcome?.kind !== "token" || !outcome.logprob) throw new Error("no logprob");
    const { logprob, top, bytes, text } = outcome.logprob;
    expect(top).toHaveLength(5);
    // At temperature 0, the model chooses the likeliest token.
    expect(top[0]?.logprob).toBe(logprob);
    expect(top.map(({ logprob: each }) => each)).toEqual(
      top.map(({ logprob: each }) => each).toSorted((one, other) => other - one),
    );
    const sum = top.reduce((total, { logprob: each }) => total + Math.exp(each), 0);
    expect(sum).toBeGreaterThan(0);
    expect(sum).toBeLessThanOrEqual(1.0001);
    expect(Buffer.from(bytes).toString()).toBe(text);
    await stream.close();

    const all = await startStream(runner(), 0, "Tell", { temperature: 0, logprobs: 512 });
    const [first] = await runner().step([all]);
    if (first?.kind !== "token" || !first.logprob) throw new Error("no logprob");
    const whole = first.logprob.top.reduce((total, each) => total + Math.exp(each.logprob), 0);
    expect(whole).toBeCloseTo(1, 3);
    await all.close();
  });

  it("never contains a banned token, and contains a forced one", async () => {
    const [free] = await runStreams(
      runner(),
      [await startStream(runner(), 0, "Go", { temperature: 0 })],
      1,
    );
    const [token = 0] = free?.tokens ?? [];
    const banned = { [String(token)]: -100 };
    const [without] = await runStreams(
      runner(),
      [await startStream(runner(), 0, "Go", { temperature: 0, logitBias: banned })],
      20,
    );
    expect(without?.tokens).not.toContain(token);
    const forced = { [String(token)]: 100 };
    const [only] = await runStreams(
      runner(),
      [await startStream(runner(), 0, "Else", { logitBias: forced })],
      10,
    );
    expect(new Set(only?.tokens)).toEqual(new Set([token]));
  });

  it("still follows its grammar if all tokens that the grammar permits are banned", async () => {
    const ends = new Set(["0", "1", "2", "260"]);
    const tokens = Array.from({ length: 512 }, (_, token) => String(token));
    const logitBias = Object.fromEntries(
      tokens.flatMap((token) => (ends.has(token) ? [] : [[token, -100]])),
    );
    const [answer] = await runStreams(
      runner(),
      [await startStream(runner(), 0, "Is it?", { grammar: 'root ::= "yes" | "no"', logitBias })],
      20,
    );
    expect(answer).toMatchObject({ ended: true, text: expect.stringMatching(/^(yes|no)$/) });
  });

  it("refuses a bias for an end-of-generation token, which the library cannot apply", async () => {
    await expect(
      startStream(runner(), 0, "Go", { logitBias: { "2": -100 } }),
    ).rejects.toMatchObject({
      code: "unsupported_parameter",
      param: "logit_bias.2",
    });
    await expect(
      startStream(runner(), 0, "Go", { logitBias: { "9999": 1 } }),
    ).rejects.toMatchObject({
      code: "invalid_request",
    });
  });

  it("with a repetition penalty repeats itself less", async () => {
    expect(await repeats({ frequencyPenalty: 2, presencePenalty: 2 })).toBeLessThan(
      await repeats({}),
    );
  });
});

describe("a prompt", () => {
  it("is encoded even if it has more tokens than a JavaScript function call may have arguments", async () => {
    // The vocabulary has no token for this character, so the model reads its four bytes singly.
    const content = "\u{10348}".repeat(50_000);
    const tokens = await runner().encode({
      kind: "chat",
      messages: [{ role: "user", content }],
      tools: [],
      variables: {},
    });
    expect(tokens.length).toBeGreaterThan(200_000);
  });
});

describe("a sequence of the KV cache", () => {
  it("keeps evaluated tokens, and continues from them with the same result", async () => {
    const tokens = await runner().encode({
      kind: "text",
      text: "A prompt that is read once only.",
    });
    const answer = async (kept: number) => {
      await runner().prefill(0, tokens.slice(kept, -1));
      const stream = runner().start(0, tokens.at(-1) ?? 0, { ...plainSampling, temperature: 0 });
      const [one] = await runStreams(runner(), [stream], 10);
      return one?.text;
    };
    await runner().truncate(0, 0);
    const first = await answer(0);
    expect(await runner().truncate(0, 5)).toBe(5);
    expect(await answer(5)).toBe(first);
  });

  it("is never shifted to make space: a step beyond the context fails", async () => {
    await runner().truncate(0, 0);
    const chunk = Array.from({ length: 128 }, () => 300);
    await runner().prefill(0, chunk);
    await expect(runner().prefill(0, chunk)).rejects.toMatchObject({
      code: "context_length_exceeded",
    });
    await runner().prefill(0, chunk.slice(0, 126));
    const stream = runner().start(0, 300, plainSampling);
    expect((await runner().step([stream])).map(({ kind }) => kind)).toEqual(["token"]);
    const [outcome] = await runner().step([stream]);
    expect(outcome).toMatchObject({ kind: "failed", error: { code: "context_length_exceeded" } });
    await stream.close();
  });

  it("can be taken away from an answer that is in progress, which continues on another sequence", async () => {
    const grammar = 'root ::= "[" ("\\"ab\\"" ","){6} "1]"';
    const prompt = await runner().encode({ kind: "text", text: "List" });
    const stream = await startStream(runner(), 0, "List", { grammar });
    const tokens: number[] = [];
    let text = "";
    for (let ended = false; !ended; ) {
      if (tokens.length === 5) {
        await stream.suspend();
        const other = await startStream(runner(), 0, "Something else");
        await runStreams(runner(), [other], 3);
        await runner().truncate(3, 0);
        await runner().prefill(3, [...prompt, ...tokens.slice(0, -1)]);
        stream.resume(3, tokens.at(-1) ?? 0);
        expect(stream.sequence).toBe(3);
      }
      const [outcome] = await runner().step([stream]);
      if (!outcome || outcome.kind === "failed") throw outcome?.error;
      text += outcome.text;
      if (outcome.kind === "token") tokens.push(outcome.token);
      ended = outcome.kind === "end";
    }
    await stream.close();
    expect(text).toBe(`[${'"ab",'.repeat(6)}1]`);
  });
});
