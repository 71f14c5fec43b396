import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type {
  GenerateJob,
  InferenceEngine,
  LoadedModel,
  ModelFile,
} from "../../../src/assistant/inference/inference-engine.ts";
import { CountingCores } from "../../support/counting-cores.ts";
import { GenerationReader } from "../../support/generation-reader.ts";
import { createTextJob, plainSampling } from "../../support/scripted-engine.ts";

/** The engine under test, and the model files that the contract's tests use. */
export interface EngineHarness extends AsyncDisposable {
  readonly engine: InferenceEngine;
  /** A model that generates text. */
  readonly file: ModelFile;
  /** A model that embeds texts; it can be the same file as `file`. */
  readonly embeddingFile: ModelFile;
  /** A file that cannot be loaded; undefined if the engine reads no files. */
  readonly damagedFile: ModelFile | undefined;
  /** The name that the engine reports. */
  readonly name: string;
}

const CONTEXT_TOKENS = 512;
const SEQUENCES = 2;
const alphabet = "abcdefghijklmnopqrstuvwxyz ";

/** Checks the behaviour that the service relies on, for any adapter of the Engine port. */
export function engineContract(adapter: string, open: () => Promise<EngineHarness>): void {
  describe(`the inference engine: ${adapter}`, () => {
    let harness: EngineHarness;
    let model: LoadedModel;
    const cores = new CountingCores();
    const signal = new AbortController().signal;

    beforeAll(async () => {
      harness = await open();
      model = await load(harness.file);
    }, 120_000);
    afterAll(async () => {
      await model[Symbol.asyncDispose]();
      await harness.engine[Symbol.asyncDispose]();
      await harness[Symbol.asyncDispose]();
    }, 60_000);

    function load(file: ModelFile): Promise<LoadedModel> {
      const sizes = { contextTokens: CONTEXT_TOKENS, sequences: SEQUENCES };
      return harness.engine.load({ ...file, ...sizes, memoryBytesMax: 2 ** 31, cores }, signal);
    }

    function ask(
      text: string,
      changes: Partial<GenerateJob> = {},
      until = signal,
    ): GenerationReader {
      return new GenerationReader(
        model.generate(createTextJob(text, { maxTokens: 16, ...changes }), until),
      );
    }

    /** Requests an answer to `text`, and waits for its end. Throws the error with which the answer fails. */
    async function answer(
      text: string,
      changes: Partial<GenerateJob> = {},
    ): Promise<GenerationReader> {
      const reader = ask(text, changes);
      await reader.done;
      if (reader.error !== undefined) throw reader.error;
      return reader;
    }

    async function idle(): Promise<void> {
      await expect.poll(() => model.load).toEqual({ active: 0, queued: 0 });
    }

    it("the engine reports its name, and the memory that a model requires", async () => {
      expect(harness.engine.name).toBe(harness.name);
      const facts = await harness.engine.inspect(harness.file, signal);
      expect(facts.architecture).not.toBe("");
      const one = facts.memoryBytes({ contextTokens: 512, sequences: 1 });
      expect(facts.memoryBytes({ contextTokens: 512, sequences: 4 })).toBeGreaterThan(one);
      expect(model.facts.architecture).toBe(facts.architecture);
    });

    it("the engine refuses a file that cannot be loaded, and the error does not contain the file's path", async () => {
      const { damagedFile } = harness;
      if (!damagedFile) return;
      for (const refused of [
        await refusal(harness.engine.inspect(damagedFile, signal)),
        await refusal(load(damagedFile)),
      ]) {
        expect(refused).toMatchObject({ code: "model_unusable" });
        expect(String(refused)).not.toContain(damagedFile.path);
      }
    });

    it("the engine loads no model if the caller's signal has aborted", async () => {
      const request = { ...harness.file, contextTokens: undefined, sequences: undefined };
      const reason = new Error("gone");
      const gone = AbortSignal.abort(reason);
      const loading = harness.engine.load({ ...request, memoryBytesMax: 2 ** 31, cores }, gone);
      await expect(loading).rejects.toBe(reason);
    });

    it("the engine loads a model with the requested context size and number of sequences", () => {
      expect(model.id).toBe(harness.file.id);
      expect(model.contextTokens).toBe(CONTEXT_TOKENS);
      expect(model.sequences).toBe(SEQUENCES);
      expect(model.threads).toBeGreaterThanOrEqual(1);
      expect(model.memoryBytes).toBeGreaterThan(0);
    });

    it("the engine first reports that an answer starts, then yields the pieces of its text, and then reports its end", async () => {
      const prompt = { kind: "text", text: "Once upon a time" } as const;
      const tokens = await model.encode(prompt, signal);
      const reader = await answer(prompt.text);
      expect(reader.started).toMatchObject({ promptTokens: tokens.length });
      expect(reader.end?.completionTokens).toBeGreaterThan(0);
      expect(reader.end?.completionTokens).toBeLessThanOrEqual(16);
    });

    it("the engine answers a chat, and a prompt that is a list of token ids", async () => {
      const chat = {
        kind: "chat",
        messages: [
          { role: "system", content: "You are of few words." },
          { role: "user", content: "Who are you?" },
        ],
        tools: [],
        variables: {},
      } as const;
      const tokens = await model.encode(chat, signal);
      const ofChat = await answer("", { prompt: chat });
      const ofTokens = await answer("", { prompt: { kind: "tokens", tokens } });
      expect(ofChat.started?.promptTokens).toBe(tokens.length);
      expect(ofTokens.text).toBe(ofChat.text);
    });

    it("the engine ends an answer with the reason `length` at the token limit", async () => {
      const reader = await answer("Count.", { ...literal(alphabet.repeat(10)), maxTokens: 3 });
      expect(reader.end).toMatchObject({ reason: "length", completionTokens: 3 });
      expect(alphabet.startsWith(reader.text)).toBe(true);
      expect(reader.text).not.toBe("");
    });

    it("the engine ends an answer with the reason `stop` when the model ends it", async () => {
      const reader = await answer("Yes or no?", literal("yes"));
      expect(reader.text).toBe("yes");
      expect(reader.end?.reason).toBe("stop");
    });

    it("the engine ends an answer before a stop text, even if the stop text is split over several tokens", async () => {
      const reader = await answer("Say it.", { ...literal(alphabet), stop: ["xyz", "lmnop"] });
      expect(reader.text).toBe("abcdefghijk");
      expect(reader.end?.reason).toBe("stop");
    });

    it("the engine refuses a prompt that fills the context, and the error has both numbers of tokens", async () => {
      const [token = 0] = await model.encode({ kind: "text", text: "a" }, signal);
      const tokens = Array.from({ length: CONTEXT_TOKENS }, () => token);
      const reader = ask("", { prompt: { kind: "tokens", tokens } });
      await reader.done;
      expect(reader.error).toMatchObject({ code: "context_length_exceeded" });
      expect(String(reader.error)).toMatch(/512.*512/);
    });

    it("the engine yields the logprob of each token together with the token's text", async () => {
      const sampling = { ...plainSampling, logprobs: 2 };
      const reader = await answer("Say some words.", { sampling });
      // The token that ends the answer is counted in `completionTokens`, but has no text and no logprob.
      const { completionTokens = 0, reason } = reader.end ?? {};
      expect(reader.logprobs).toHaveLength(completionTokens - (reason === "stop" ? 1 : 0));
      const bytes = reader.logprobs.flatMap((token) => token.bytes);
      expect(Buffer.from(bytes).toString()).toContain(reader.text.replace(/\ufffd+$/, ""));
      for (const { logprob, top } of reader.logprobs) {
        expect(logprob).toBeLessThanOrEqual(0);
        expect(top.length).toBeLessThanOrEqual(2);
      }
    });

    it("the engine does not compute the beginning of a conversation again when the conversation continues", async () => {
      const text = "This is a conversation that goes on and on. ".repeat(3);
      await answer(text, { maxTokens: 1 });
      const reader = await answer(`${text} And so on.`);
      const { promptTokens = 0, cachedTokens = 0 } = reader.started ?? {};
      expect(cachedTokens).toBeGreaterThan(promptTokens / 2);
      expect(cachedTokens).toBeLessThan(promptTokens);
    });

    it("the engine answers more concurrent requests than the model has sequences", async () => {
      const texts = Array.from({ length: 6 }, (_, at) => alphabet.slice(at, at + 12));
      const readers = await Promise.all(texts.map((text) => answer("Say it.", literal(text))));
      expect(readers.map(({ text }) => text)).toEqual(texts);
      await idle();
    });

    it("the engine answers interactive requests first, and still completes the background answers", async () => {
      const background = ["one ", "two "].map((name) =>
        ask("Say it.", { ...literal(name + alphabet.repeat(4)), priority: "background" }),
      );
      await Promise.all(background.map((reader) => reader.firstOutput));
      const urgent = await answer("Quick.", literal("at once"));
      expect(urgent.text).toBe("at once");
      await Promise.all(background.map(({ done }) => done));
      expect(background.map(({ text }) => text)).toEqual(
        ["one ", "two "].map((name) => name + alphabet.repeat(4)),
      );
    });

    it("the engine frees all resources of an aborted request, whether it was waiting or being answered", async () => {
      for (let number = 0; number < 30; number += 1) {
        const leaving = new AbortController();
        const reader = ask(`Number ${number}`, literal(alphabet.repeat(8)), leaving.signal);
        if (number % 3 === 1) await reader.firstOutput;
        if (number % 2 === 0) leaving.abort(new Error("gone"));
        else await reader.cancel();
        await reader.done;
        expect(reader.text).not.toBe(alphabet.repeat(8));
      }
      await idle();
      expect((await answer("Still there?", literal("yes"))).text).toBe("yes");
    });

    it("the engine rejects a call whose signal has aborted with the signal's reason", async () => {
      const reason = new Error("gone");
      const reader = ask("x", {}, AbortSignal.abort(reason));
      await reader.done;
      expect(reader.error).toBe(reason);
      const encoding = model.encode({ kind: "text", text: "x" }, AbortSignal.abort(reason));
      await expect(encoding).rejects.toBe(reason);
      const embedding = model.embed(["x"], { priority: "interactive" }, AbortSignal.abort(reason));
      await expect(embedding).rejects.toBe(reason);
    });

    it("the engine answers other callers while one caller does not read its answer", async () => {
      const slow = ask("Slow.", literal(alphabet.repeat(12)));
      await slow.firstOutput;
      const goOn = slow.pause();
      for (let number = 0; number < 4; number += 1)
        expect((await answer("Quick.", literal("at once"))).text).toBe("at once");
      goOn();
      await slow.done;
      expect(slow.text).toBe(alphabet.repeat(12));
    });

    it("the engine returns its processor cores when it is idle", async () => {
      await answer("Anything.");
      await idle();
      cores.contest(true);
      await expect.poll(() => cores.isHeld).toBe(false);
      cores.contest(false);
      expect(cores.holdCount).toBeGreaterThan(0);
    });

    describe("embeddings", () => {
      let embedder: LoadedModel;
      const options = { priority: "interactive" } as const;

      beforeAll(async () => {
        embedder =
          harness.embeddingFile === harness.file ? model : await load(harness.embeddingFile);
      }, 120_000);
      afterAll(async () => {
        if (embedder !== model) await embedder[Symbol.asyncDispose]();
      });

      it("are unit vectors in the order of the texts, and are equal for equal texts", async () => {
        const texts = ["a cat", "a much longer text about dogs, cats and horses", "a cat"];
        const { vectors, tokens } = await embedder.embed(texts, options, signal);
        expect(vectors.map((vector) => vector.length)).toEqual(
          texts.map(() => embedder.facts.embeddingLength),
        );
        for (const vector of vectors) expect(Math.hypot(...vector)).toBeCloseTo(1, 4);
        expect(vectors[0]).toEqual(vectors[2]);
        expect(vectors[0]).not.toEqual(vectors[1]);
        expect(tokens[0]).toBe(tokens[2]);
        expect(tokens[1]).toBeGreaterThan(tokens[0] ?? 0);
        expect(await embedder.embed([], options, signal)).toEqual({ vectors: [], tokens: [] });
      });

      it("of many texts equal those of each text alone", async () => {
        const texts = Array.from({ length: 60 }, (_, at) => `text ${at} `.repeat(1 + (at % 7)));
        const all = await embedder.embed(texts, options, signal);
        expect(all.vectors).toHaveLength(60);
        for (const at of [0, 17, 59]) {
          const alone = await embedder.embed([texts[at] ?? ""], options, signal);
          const product = dot(all.vectors[at], alone.vectors[0]);
          expect(product).toBeGreaterThan(0.999);
          expect(all.tokens[at]).toBe(alone.tokens[0]);
        }
      });

      it("of a text that is too long are refused, with the position of the text in the error", async () => {
        const texts = ["short", "words and more words ".repeat(embedder.contextTokens)];
        const refused = await refusal(embedder.embed(texts, options, signal));
        expect(refused).toMatchObject({ code: "context_length_exceeded", param: "input[1]" });
        expect((await embedder.embed(["short"], options, signal)).vectors).toHaveLength(1);
      });
    });

    it("the engine rejects pending and later calls for a model that was unloaded", async () => {
      const other = await load(harness.file);
      const job = createTextJob("Slow.", literal(alphabet.repeat(12)));
      const reader = new GenerationReader(other.generate(job, signal));
      await reader.firstOutput;
      await other[Symbol.asyncDispose]();
      await reader.done;
      expect(reader.error).toMatchObject({ code: "shutting_down" });
      const late = new GenerationReader(other.generate(job, signal));
      await late.done;
      expect(late.error).toMatchObject({ code: "shutting_down" });
    });
  });
}

/** Returns a job whose grammar allows only `text` as the answer, so that a test notices lost or repeated text. */
function literal(text: string): Partial<GenerateJob> {
  const sampling = {
    ...plainSampling,
    grammar: `root ::= ${JSON.stringify(text)}`,
    grammarExample: text,
  };
  return { sampling, maxTokens: 400 };
}

async function refusal(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was refused");
}

function dot(one: Float32Array | undefined, other: Float32Array | undefined): number {
  return one?.reduce((sum, value, at) => sum + value * (other?.[at] ?? 0), 0) ?? 0;
}
