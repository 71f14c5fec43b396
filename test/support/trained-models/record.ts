import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TrainedModel, trainedModels, trainedModelsDir } from "./catalog.ts";
import { fetchForTests } from "./fetch-for-tests.ts";
import { buildLlamaServer, bundledRelease, LlamaServer } from "./llama-server.ts";
import {
  ANSWER_TOKENS_MAX,
  chatQuestions,
  embeddedTexts,
  type TextQuestion,
  textQuestions,
} from "./questions.ts";
import { readInPieces } from "./read-in-pieces.ts";
import {
  type RecordedAnswer,
  type RecordedEmbedding,
  type Recording,
  readProcessor,
  recordingPath,
} from "./recorded-answers.ts";

/**
 * An answer is cut before the first token whose probability is this close to that of the next one (as a difference of
 * logprobs), because another processor may round the other way there.
 */
const TIE = 0.1;
const ANSWER_TOKENS_MIN = 2;

/** Records the answers of llama-server to all questions. `dir` is the folder in which llama-server is built. */
export async function record(dir: string, say: (line: string) => void): Promise<void> {
  await fetchForTests(say);
  const { program, commit } = await buildLlamaServer(dir);
  const written = await Promise.all([
    save("smollm2", commit, await withServer(program, "smollm2", [], recordChats)),
    save("gemma3", commit, await withServer(program, "gemma3", [], recordTexts)),
    save("minilm", commit, await withServer(program, "minilm", ["--embeddings"], recordVectors)),
  ]);
  const biome = join(import.meta.dirname, "../../../node_modules/.bin/biome");
  const { status } = spawnSync(biome, ["format", "--write", ...written], { stdio: "inherit" });
  if (status !== 0) throw new Error("biome could not format the recordings");
}

async function withServer<Answer>(
  program: string,
  name: TrainedModel["name"],
  flags: readonly string[],
  use: (server: LlamaServer) => Promise<readonly Answer[]>,
): Promise<readonly Answer[]> {
  const model = join(trainedModelsDir(), findModel(name).fileName);
  const all = ["--model", model, "--ctx-size", "512", ...flags];
  await using server = await LlamaServer.start(program, all);
  return await use(server);
}

async function save(
  name: TrainedModel["name"],
  commit: string,
  answers: readonly unknown[],
): Promise<string> {
  const recording: Recording<unknown> = {
    release: await bundledRelease(),
    commit,
    modelSha256: findModel(name).sha256,
    processor: readProcessor(),
    answers,
  };
  const path = recordingPath(name);
  await writeFile(path, JSON.stringify(recording));
  return path;
}

function findModel(name: TrainedModel["name"]): TrainedModel {
  const model = trainedModels.find((one) => one.name === name);
  if (!model) throw new Error(`there is no model ${name}`);
  return model;
}

async function recordChats(server: LlamaServer): Promise<readonly RecordedAnswer[]> {
  const answers: RecordedAnswer[] = [];
  for (const { id, messages, stop } of chatQuestions) {
    const { prompt } = await server.post<{ prompt: string }>("/apply-template", { messages });
    answers.push(await recordAnswer(server, { id, prompt, ...(stop && { stop }) }));
  }
  return answers;
}

async function recordTexts(server: LlamaServer): Promise<readonly RecordedAnswer[]> {
  const answers: RecordedAnswer[] = [];
  for (const question of textQuestions) answers.push(await recordAnswer(server, question));
  return answers;
}

interface ServerAnswer {
  readonly content: string;
  readonly stop_type: string;
  readonly completion_probabilities: readonly ServerToken[];
}

interface ServerToken {
  readonly id: number;
  readonly bytes: readonly number[];
  readonly logprob: number;
  readonly top_logprobs: readonly { readonly logprob: number }[];
}

async function recordAnswer(server: LlamaServer, question: TextQuestion): Promise<RecordedAnswer> {
  const { tokens } = await server.post<{ tokens: readonly number[] }>("/tokenize", {
    content: question.prompt,
    add_special: true,
    parse_special: true,
  });
  const request = { temperature: 0, n_probs: 2, stop: question.stop ?? [] };
  const ask = (tokensMax: number) =>
    readInPieces<ServerAnswer>(server, tokens, { ...request, n_predict: tokensMax });
  const whole = await ask(ANSWER_TOKENS_MAX);
  const tie = whole.completion_probabilities.findIndex(isTie);
  const answer = tie === -1 ? whole : await ask(Math.max(tie, ANSWER_TOKENS_MIN));
  if (answer.completion_probabilities.slice(0, ANSWER_TOKENS_MIN).some(isTie))
    throw new Error(`the first tokens of ${question.id} are a matter of rounding; change it`);
  return {
    id: question.id,
    promptTokens: tokens,
    tokens: answer.completion_probabilities.map(({ id, bytes, logprob }) => ({
      id,
      bytes: Buffer.from(bytes).toString("hex"),
      logprob: Number(logprob.toFixed(6)),
    })),
    text: answer.content,
    reason: answer.stop_type === "limit" ? "length" : "stop",
  };
}

function isTie({ top_logprobs: [first, second] }: ServerToken): boolean {
  return first !== undefined && second !== undefined && first.logprob - second.logprob < TIE;
}

async function recordVectors(server: LlamaServer): Promise<readonly RecordedEmbedding[]> {
  const answers: RecordedEmbedding[] = [];
  for (const text of embeddedTexts) {
    const answer = await server.post<{
      readonly data: readonly { readonly embedding: readonly number[] }[];
      readonly usage: { readonly prompt_tokens: number };
    }>("/v1/embeddings", { input: text });
    const vector = Float32Array.from(answer.data[0]?.embedding ?? []);
    answers.push({
      text,
      tokens: answer.usage.prompt_tokens,
      vector: Buffer.from(vector.buffer).toString("base64"),
    });
  }
  return answers;
}
