import { afterAll, beforeAll } from "vitest";
import { inspectModel } from "../../src/assistant/inference/llama/gguf/inspect-model.ts";
import { openLibrary, openModel } from "../../src/assistant/inference/llama/llama-library.ts";
import { LlamaRunner } from "../../src/assistant/inference/llama/llama-runner.ts";
import { ThreadGovernor } from "../../src/assistant/inference/llama/threads/thread-governor.ts";
import type { Sampling, TokenStream } from "../../src/assistant/inference/runner.ts";
import { getModelFile, type ModelOptions, type Preset } from "../support/gguf/preset-model.ts";

/** Sampling parameters for free text that is the same in every run. */
export const plainSampling: Sampling = {
  temperature: 0.8,
  topP: 0.95,
  topK: 40,
  minP: 0,
  seed: 7,
  repeatPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: {},
  logprobs: undefined,
  grammar: undefined,
  grammarExample: undefined,
  showControlTokens: false,
};

export interface RunnerSetup {
  /** A model that is made from a seed, or the path of a file. */
  readonly preset: Preset | { readonly path: string };
  readonly options?: ModelOptions;
  readonly sequences?: number;
  readonly contextTokens?: number;
  readonly isDeterministic?: boolean;
  readonly threads?: number;
}

/** Opens a runner with the real library in this process for all tests of a file. */
export function setUpRunner(setup: RunnerSetup): () => LlamaRunner {
  let runner: LlamaRunner | undefined;
  beforeAll(async () => {
    runner = await openRunner(setup);
  });
  afterAll(() => runner?.[Symbol.asyncDispose]());
  return () => {
    if (!runner) throw new Error("only within a test");
    return runner;
  };
}

const libraries = new Map<number, ReturnType<typeof openLibrary>>();

/** Opens the library once for each number of threads, because that takes longer than opening a small model. */
function getLibrary(threads: number): ReturnType<typeof openLibrary> {
  const opened =
    libraries.get(threads) ?? openLibrary({ gpu: false, threadsMax: threads, log: () => {} });
  libraries.set(threads, opened);
  return opened;
}

export async function getModelPath({ preset, options }: RunnerSetup): Promise<string> {
  return typeof preset === "string" ? getModelFile(preset, options) : preset.path;
}

export async function openRunner(setup: RunnerSetup): Promise<LlamaRunner> {
  const { sequences = 8, contextTokens = 255, isDeterministic = false, threads = 1 } = setup;
  const path = await getModelPath(setup);
  const { facts } = await inspectModel({ id: "model", path }, new AbortController().signal);
  const llama = await getLibrary(threads);
  const model = await openModel(llama, { path });
  return LlamaRunner.open({
    llama,
    model,
    contextTokens,
    sequences: facts.kind === "embedding" ? 0 : sequences,
    embeddingsAtOnce: 2,
    chatTemplate: facts.chatTemplate,
    isDeterministic,
    now: () => Date.UTC(2026, 0, 1),
    threads: new ThreadGovernor({
      threadsMax: threads,
      setThreads: () => {},
      now: () => performance.now(),
      cpuMs: () => 0,
      onChange: () => {},
    }),
  });
}

/** Replaces the content of a sequence with a text, and starts a stream that continues the text. */
export async function startStream(
  runner: LlamaRunner,
  sequence: number,
  text: string,
  sampling: Partial<Sampling> = {},
): Promise<TokenStream> {
  const tokens = await runner.encode({ kind: "text", text });
  await runner.truncate(sequence, 0);
  if (tokens.length > 1) await runner.prefill(sequence, tokens.slice(0, -1));
  return runner.start(sequence, tokens.at(-1) ?? 0, { ...plainSampling, ...sampling });
}

/** Steps streams together until each has ended or has `tokensMax` tokens, then closes them. */
export async function runStreams(
  runner: LlamaRunner,
  streams: readonly TokenStream[],
  tokensMax: number,
) {
  const answers = streams.map(() => ({
    text: "",
    tokens: [] as number[],
    ended: false,
    logprobs: [] as unknown[],
  }));
  for (let step = 0; step < tokensMax; step++) {
    const open = streams.filter((_, index) => !answers[index]?.ended);
    if (open.length === 0) break;
    for (const [index, outcome] of (await runner.step(open)).entries()) {
      const stream = open[index];
      const answer = stream && answers[streams.indexOf(stream)];
      if (!answer) throw new Error("more outcomes than streams");
      if (outcome.kind === "failed") throw outcome.error;
      answer.text += outcome.text;
      if (outcome.kind === "end") answer.ended = true;
      else {
        answer.tokens.push(outcome.token);
        if (outcome.logprob) answer.logprobs.push(outcome.logprob);
      }
    }
  }
  await Promise.all(streams.map((stream) => stream.close()));
  return answers;
}
