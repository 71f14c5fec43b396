import { expect, it } from "vitest";
import type { TokenLogprob } from "../../src/assistant/inference/runner.ts";
import { Dice } from "../support/random.ts";
import { compareLogprobs, openInProcessModel, repeatInFreshContext } from "./fresh-context.ts";
import type { RunnerSetup } from "./llama-runner-setup.ts";
import { type Answered, runMixedWork } from "./mixed-work.ts";

/**
 * The model has several layers, because in a model with one layer the rounding of a token affects no other token. Its
 * weights are F16, because with them every difference between batches becomes visible.
 */
const setup: RunnerSetup = {
  preset: "layers",
  options: { endsAfter: null },
  sequences: 3,
  contextTokens: 2_047,
};

async function answerMixedWork(
  options: RunnerSetup,
  work: { readonly seed: number; readonly requests: number; readonly wordsMax: number },
): Promise<readonly Answered[]> {
  await using model = await openInProcessModel(options);
  const answers: Answered[] = [];
  let requests = 0;
  await runMixedWork(model, {
    dice: new Dice(work.seed),
    clients: 5,
    wordsMax: work.wordsMax,
    answerTokensMax: 20,
    goesOn: () => requests++ < work.requests,
    onAnswered: (answered) => {
      answers.push(answered);
    },
  });
  return answers;
}

it("the first token of an answer has the logprobs that it has in a fresh context, whatever ran before or runs at the same time", async () => {
  const answers = await answerMixedWork(setup, { seed: 4, requests: 30, wordsMax: 180 });
  // Continued conversations are excluded, because their sequence keeps tokens that were generated one by one.
  const comparable = answers.filter(
    ({ goesOn, logprobs, promptTokens }) => !goesOn && logprobs.length > 0 && promptTokens < 512,
  );
  expect(comparable.filter(({ promptTokens }) => promptTokens > 128).length).toBeGreaterThan(3);
  const differences: number[] = [];
  for (const answered of comparable) {
    const [first] = await repeatInFreshContext(setup, answered, 1);
    differences.push(compareLogprobs(first, answered.logprobs[0]));
  }
  expect(Math.max(...differences)).toBeLessThan(0.001);
});

it("a deterministic model gives the same logprobs for the same request, bit for bit", async () => {
  const exact = { ...setup, isDeterministic: true };
  const answers = await answerMixedWork(exact, { seed: 5, requests: 24, wordsMax: 300 });
  expect(answers.some(({ promptTokens }) => promptTokens > 512)).toBe(true);
  expect(answers.some(({ goesOn, logprobs }) => goesOn && logprobs.length > 0)).toBe(true);
  for (const answered of answers) {
    const { logprobs, maxTokens } = answered;
    const repeated = await repeatInFreshContext(exact, answered, maxTokens);
    expect(repeated.slice(0, logprobs.length)).toEqual(logprobs);
  }
});

it("a deterministic model gives the same logprobs with one and with two threads", async () => {
  const request = { prompt: "a river runs to the old town ".repeat(40), temperature: 0 };
  const answers: (readonly TokenLogprob[])[] = [];
  for (const threads of [1, 2])
    answers.push(
      await repeatInFreshContext({ ...setup, isDeterministic: true, threads }, request, 4),
    );
  expect(answers[0]).toHaveLength(4);
  expect(answers[1]).toEqual(answers[0]);
});
