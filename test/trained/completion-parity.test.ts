import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { AssistantProcess } from "../support/assistant-process.ts";
import { Dice } from "../support/random.ts";
import { SEED } from "../support/sampling.ts";
import { findDifferences, type ObservedAnswer, toHex } from "../support/trained-models/parity.ts";
import {
  type TextQuestion,
  textQuestions,
  unrelatedTexts,
} from "../support/trained-models/questions.ts";
import {
  logprobMax,
  type RecordedAnswer,
  type Recording,
  readRecording,
} from "../support/trained-models/recorded-answers.ts";
import { startAssistantWith } from "../support/trained-models/trained-assistant.ts";

let assistant: AssistantProcess;
let recording: Recording<RecordedAnswer>;

beforeAll(async () => {
  recording = await readRecording("gemma3");
  assistant = await startAssistantWith("gemma3", inject("trainedModels").gemma3);
});
afterAll(() => assistant[Symbol.asyncDispose]());

function recordedOf(id: string): RecordedAnswer {
  const found = recording.answers.find((answer) => answer.id === id);
  if (!found) throw new Error(`no answer to ${id} is recorded: npm run models:record`);
  return found;
}

async function ask(
  { id, prompt, stop }: TextQuestion,
  rest: Readonly<Record<string, number>> = {},
): Promise<ObservedAnswer> {
  const { choices, usage } = await assistant.openai.completions.create({
    model: "gemma3",
    prompt,
    max_tokens: recordedOf(id).tokensMax,
    temperature: 0,
    logprobs: 0,
    ...(stop && { stop: [...stop] }),
    ...rest,
  });
  const { tokens = [], token_logprobs: logprobs = [] } = choices[0]?.logprobs ?? {};
  return {
    promptTokens: usage?.prompt_tokens ?? 0,
    text: choices[0]?.text ?? "",
    reason: choices[0]?.finish_reason ?? "",
    tokens: tokens.map((token, index) => ({
      bytes: toHex(Buffer.from(token)),
      logprob: logprobs[index] ?? Number.NaN,
    })),
  };
}

describe("Gemma 3, a base model without a chat template", () => {
  test("continues texts on a fresh context as llama-server does", async () => {
    const differences: string[] = [];
    for (const question of textQuestions)
      differences.push(
        ...findDifferences(
          recordedOf(question.id),
          await ask(question, { keep_alive: 0 }),
          logprobMax(recording, 0.0001),
        ),
      );
    expect(differences).toEqual([]);
  });

  test("continues them in the same way after other prompts", async () => {
    const dice = new Dice(SEED);
    const differences: string[] = [];
    for (const question of textQuestions) {
      // The requests are sent one at a time, because with repacked weights the tokens of several concurrent streams are
      // rounded together.
      if (dice.chance(0.4))
        await assistant.openai.completions.create({
          model: "gemma3",
          prompt: dice.pick(unrelatedTexts),
          max_tokens: 2,
        });
      differences.push(
        ...findDifferences(
          recordedOf(question.id),
          await ask(question),
          logprobMax(recording, 0.001),
        ),
      );
    }
    expect(differences, `BERTH_SEED=${SEED}`).toEqual([]);
  });
});
