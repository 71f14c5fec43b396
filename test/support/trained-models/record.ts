import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TrainedModel, trainedModels, trainedModelsDir } from "./catalog.ts";
import { fetchForTests } from "./fetch-for-tests.ts";
import { buildLlamaServer, bundledRelease, LlamaServer } from "./llama-server.ts";
import { chatQuestions, embeddedTexts, type TextQuestion, textQuestions } from "./questions.ts";
import { recordAnswer } from "./record-answer.ts";
import {
  type RecordedAnswer,
  type RecordedEmbedding,
  type Recording,
  readProcessor,
  recordingPath,
} from "./recorded-answers.ts";

/** Records the answers of llama-server to all questions. `dir` is the folder in which llama-server is built. */
export async function record(dir: string, say: (line: string) => void): Promise<void> {
  await fetchForTests(say);
  const { program, commit } = await buildLlamaServer(dir);
  const written = await Promise.all([
    save("smollm2", commit, await withServer(program, "smollm2", [], recordChats)),
    save(
      "gemma3",
      commit,
      await withServer(program, "gemma3", [], (server) => recordAll(server, textQuestions)),
    ),
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
  const questions: TextQuestion[] = [];
  for (const { messages, ...rest } of chatQuestions) {
    const { prompt } = await server.post<{ prompt: string }>("/apply-template", { messages });
    questions.push({ ...rest, prompt });
  }
  return recordAll(server, questions);
}

/** Throws an error that names all questions to change. */
async function recordAll(
  server: LlamaServer,
  questions: readonly TextQuestion[],
): Promise<readonly RecordedAnswer[]> {
  const answers: RecordedAnswer[] = [];
  const unsafe: string[] = [];
  for (const question of questions) {
    const answer = await recordAnswer(server, question);
    if (answer) answers.push(answer);
    else unsafe.push(question.id);
  }
  if (unsafe.length > 0)
    throw new Error(`rounding decides on the first tokens of ${unsafe.join(", ")}; change them`);
  return answers;
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
