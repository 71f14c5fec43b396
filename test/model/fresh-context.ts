import { InProcessModel } from "../../src/assistant/inference/in-process-model.ts";
import type { LoadedModel } from "../../src/assistant/inference/inference-engine.ts";
import { inspectModel } from "../../src/assistant/inference/llama/gguf/inspect-model.ts";
import type { TokenLogprob } from "../../src/assistant/inference/runner.ts";
import { systemClock } from "../../src/base/clock.ts";
import { uncontestedCores } from "../support/scripted-engine.ts";
import { createTextJob, never } from "./llama-engine-setup.ts";
import { getModelPath, openRunner, type RunnerSetup } from "./llama-runner-setup.ts";
import type { Answered } from "./mixed-work.ts";

/** Opens a model with a scheduler in this process. */
export async function openInProcessModel(setup: RunnerSetup): Promise<LoadedModel> {
  const runner = await openRunner(setup);
  const file = { id: "model", path: await getModelPath(setup) };
  const { facts } = await inspectModel(file, never);
  return new InProcessModel({
    id: "model",
    facts,
    memoryBytes: 0,
    threads: setup.threads ?? 1,
    runner,
    cores: uncontestedCores,
    clock: systemClock,
  });
}

/** Generates the same answer in a new context, in which nothing was computed before and nothing else is computed. */
export async function repeatInFreshContext(
  setup: RunnerSetup,
  { prompt, temperature }: Pick<Answered, "prompt" | "temperature">,
  maxTokens: number,
): Promise<readonly TokenLogprob[]> {
  await using model = await openInProcessModel({ ...setup, sequences: 1 });
  const job = createTextJob(prompt, { maxTokens }, { temperature, logprobs: 5 });
  const logprobs: TokenLogprob[] = [];
  for await (const event of model.generate(job, never))
    if (event.type === "text") logprobs.push(...(event.logprobs ?? []));
  return logprobs;
}

/**
 * Returns the largest difference between the two logprobs of a likely token; Infinity if the two answers have different
 * likely tokens.
 */
export function compareLogprobs(one: TokenLogprob | undefined, other: TokenLogprob | undefined) {
  if (!one || !other) return Number.POSITIVE_INFINITY;
  const ofOther = new Map(other.top.map(({ text, logprob }) => [text, logprob]));
  const differences = one.top.flatMap(({ text, logprob }) => {
    const there = ofOther.get(text);
    return there === undefined ? [] : [Math.abs(there - logprob)];
  });
  return differences.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...differences);
}
