import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { AssistantProcess } from "../support/assistant-process.ts";
import { Dice } from "../support/random.ts";
import { SEED } from "../support/sampling.ts";
import { bundledRelease } from "../support/trained-models/llama-server.ts";
import { findDifferences, type ObservedAnswer, toHex } from "../support/trained-models/parity.ts";
import {
  type ChatQuestion,
  chatQuestions,
  unrelatedTexts,
} from "../support/trained-models/questions.ts";
import {
  logprobMax,
  type RecordedAnswer,
  type Recording,
  readRecording,
} from "../support/trained-models/recorded-answers.ts";
import { startAssistantWith } from "../support/trained-models/trained-assistant.ts";

/** The number of questions that are asked at once. */
const AT_ONCE = 4;

let assistant: AssistantProcess;
let recording: Recording<RecordedAnswer>;

beforeAll(async () => {
  recording = await readRecording("smollm2");
  assistant = await startAssistantWith("smollm2", inject("trainedModels").smollm2);
});
afterAll(() => assistant[Symbol.asyncDispose]());

function recordedOf(id: string): RecordedAnswer {
  const found = recording.answers.find((answer) => answer.id === id);
  if (!found) throw new Error(`no answer to ${id} is recorded: npm run models:record`);
  return found;
}

function createRequest({ id, messages, stop }: ChatQuestion) {
  return {
    model: "smollm2",
    messages: [...messages],
    max_tokens: recordedOf(id).tokensMax,
    temperature: 0,
    logprobs: true,
    ...(stop && { stop: [...stop] }),
  };
}

interface ChatToken {
  readonly bytes: readonly number[] | null;
  readonly logprob: number;
}

function toObservedTokens(tokens: readonly ChatToken[]): ObservedAnswer["tokens"] {
  return tokens.map(({ bytes, logprob }) => ({
    bytes: toHex(Uint8Array.from(bytes ?? [])),
    logprob,
  }));
}

/** Asks on a fresh context: the model is unloaded after each answer. */
async function askFresh(question: ChatQuestion): Promise<ObservedAnswer> {
  const request = { ...createRequest(question), keep_alive: 0 };
  const { choices, usage } = await assistant.openai.chat.completions.create(request);
  expect(usage?.prompt_tokens_details?.cached_tokens ?? 0).toBe(0);
  return {
    promptTokens: usage?.prompt_tokens ?? 0,
    text: choices[0]?.message.content ?? "",
    reason: choices[0]?.finish_reason ?? "",
    tokens: toObservedTokens(choices[0]?.logprobs?.content ?? []),
  };
}

/** Asks with a stream, on whatever context the scheduler chooses. */
async function askStreamed(question: ChatQuestion): Promise<ObservedAnswer> {
  const stream = await assistant.openai.chat.completions.create({
    ...createRequest(question),
    stream: true,
    stream_options: { include_usage: true },
  });
  const tokens: ChatToken[] = [];
  let promptTokens = 0;
  let text = "";
  let reason = "";
  for await (const { choices, usage } of stream) {
    promptTokens = usage?.prompt_tokens ?? promptTokens;
    text += choices[0]?.delta.content ?? "";
    reason = choices[0]?.finish_reason ?? reason;
    tokens.push(...(choices[0]?.logprobs?.content ?? []));
  }
  return { promptTokens, text, reason, tokens: toObservedTokens(tokens) };
}

async function askUnrelated(content: string): Promise<void> {
  await assistant.openai.chat.completions.create({
    model: "smollm2",
    messages: [{ role: "system", content }],
    max_tokens: 3,
  });
}

describe("the model SmolLM2 in a chat", () => {
  test("has recorded answers that were made with the llama.cpp release of node-llama-cpp", async () => {
    expect(recording.release).toBe(await bundledRelease());
    expect(recording.answers.map(({ id }) => id)).toEqual(chatQuestions.map(({ id }) => id));
  });

  test("answers on a fresh context as llama-server does", async () => {
    const differences: string[] = [];
    for (const question of chatQuestions)
      differences.push(
        ...findDifferences(
          recordedOf(question.id),
          await askFresh(question),
          logprobMax(recording, 0.0001),
        ),
      );
    expect(differences).toEqual([]);
  });

  test("gives the same streamed answers after other prompts and while it answers other questions", async () => {
    const dice = new Dice(SEED);
    const shuffled = chatQuestions
      .map((question) => ({ question, order: dice.random() }))
      .toSorted((left, right) => left.order - right.order)
      .map(({ question }) => question);
    const differences: string[] = [];
    for (let first = 0; first < shuffled.length; first += AT_ONCE) {
      await askUnrelated(dice.pick(unrelatedTexts));
      const questions = shuffled.slice(first, first + AT_ONCE);
      const answers = await Promise.all(questions.map(askStreamed));
      for (const [index, answer] of answers.entries())
        differences.push(
          ...findDifferences(
            recordedOf(questions[index]?.id ?? ""),
            answer,
            logprobMax(recording, 0.001),
          ),
        );
    }
    expect(differences, `BERTH_SEED=${SEED}`).toEqual([]);
  });
});
