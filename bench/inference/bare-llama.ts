import type { Token } from "node-llama-cpp";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

/**
 * The baseline of the inference benchmark: node-llama-cpp alone in its own process, with the same threads and batches
 * as Berth, but without Berth's scheduler and HTTP server. The benchmark calls this process over IPC.
 */

export interface BareRun {
  readonly promptTokens: number;
  readonly answerTokens: number;
  readonly streams: number;
  /** If true, no prefix of an earlier prompt can be reused. */
  readonly isCold: boolean;
}

export interface BareResult {
  /** The tokens per second of all streams together, from the first decoding step to the last. */
  readonly tokensPerSecond: number;
  /** The time to the first token of the first stream, in milliseconds. */
  readonly firstTokenMs: number;
}

const [, , path = "", threadsText = "1", contextText = "2048"] = process.argv;
const threads = Number(threadsText);
const SEQUENCES = 8;
const CHUNK = 128;

const llama = await getLlama({
  gpu: false,
  build: "never",
  maxThreads: threads,
  logLevel: LlamaLogLevel.error,
});
const model = await llama.loadModel({ modelPath: path });
let expected = 0;
const context = await model.createContext({
  sequences: SEQUENCES,
  contextSize: Number(contextText),
  batchSize: CHUNK,
  threads,
  batching: {
    // All streams are in one batch, which is faster than the library's own batching.
    itemPrioritizationStrategy: ({ items }) =>
      items.length < expected
        ? []
        : items.map((item) => ({ item, processAmount: item.tokens.length })),
  },
});
const sequences = Array.from({ length: SEQUENCES }, () => context.getSequence());
let salt = 0;

process.on("message", (run: BareRun) => {
  void measure(run).then((result) => process.send?.(result));
});
process.send?.("ready");

async function measure(run: BareRun): Promise<BareResult> {
  const used = sequences.slice(0, run.streams);
  const begun = performance.now();
  const streams = [];
  for (const sequence of used) {
    const prompt = createPrompt(run);
    if (run.isCold) await sequence.clearHistory();
    else await sequence.adaptStateToTokens(prompt.slice(0, -1), false);
    expected = 1;
    for (let at = sequence.nextTokenIndex; at < prompt.length - 1; at += CHUNK)
      await sequence.evaluateWithoutGeneratingNewTokens(
        prompt.slice(at, Math.min(at + CHUNK, prompt.length - 1)),
      );
    streams.push(
      sequence.evaluate(prompt.slice(-1), {
        temperature: 0.8,
        topK: 40,
        topP: 0.95,
        minP: 0.05,
        seed: 7,
        yieldEogToken: true,
      }),
    );
  }
  expected = run.streams;
  await Promise.all(streams.map((stream) => stream.next()));
  const first = performance.now();
  for (let step = 1; step < run.answerTokens; step++)
    await Promise.all(streams.map((stream) => stream.next()));
  const end = performance.now();
  for (const stream of streams) await stream.return();
  return {
    tokensPerSecond: (run.streams * (run.answerTokens - 1) * 1000) / (end - first),
    firstTokenMs: first - begun,
  };
}

function createPrompt({ promptTokens, isCold }: BareRun): Token[] {
  const words = model.tokenize("the quick brown fox jumps over the lazy dog ".repeat(promptTokens));
  const first = model.tokenize(isCold ? `${(salt += 1)} ` : "");
  return [...first, ...words].slice(0, promptTokens);
}
