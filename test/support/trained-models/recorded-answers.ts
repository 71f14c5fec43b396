import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TrainedModel } from "./catalog.ts";

/** The answers of llama-server, and the sources, model and processor with which it gave them. */
export interface Recording<Answer> {
  /** The release of node-llama-cpp's llama.cpp, and the commit in its bundle of sources. */
  readonly release: string;
  readonly commit: string;
  readonly modelSha256: string;
  /** The instruction sets of the processor: with others, sums are rounded in another order. */
  readonly processor: readonly string[];
  readonly answers: readonly Answer[];
}

export interface RecordedToken {
  readonly id: number;
  /** The bytes of the token alone in hexadecimal digits; they may be a part of a code point. */
  readonly bytes: string;
  readonly logprob: number;
}

export interface RecordedAnswer {
  /** The id of the question. */
  readonly id: string;
  readonly promptTokens: readonly number[];
  /** The token limit of the request. */
  readonly tokensMax: number;
  /** The tokens without the end token, without those that leave a code point incomplete, and without the stop text. */
  readonly tokens: readonly RecordedToken[];
  /** The text of the answer, which ends before a stop text. */
  readonly text: string;
  /** `eos`: the model ended its answer; `word`: a stop text occurred; `limit`: the token limit was reached. */
  readonly end: "eos" | "word" | "limit";
}

export interface RecordedEmbedding {
  readonly text: string;
  readonly tokens: number;
  /** The vector as little-endian 32-bit floats in base64. */
  readonly vector: string;
}

export function recordingPath(name: TrainedModel["name"]): string {
  return join(import.meta.dirname, "../../fixtures/trained-models", `${name}.json`);
}

/** Reads a committed recording. Its fields are not validated; a test that reads a missing field fails. */
export async function readRecording<Answer>(
  name: TrainedModel["name"],
): Promise<Recording<Answer>> {
  const recording: Recording<Answer> = JSON.parse(await readFile(recordingPath(name), "utf8"));
  return recording;
}

/** The instruction sets that select the kernels of llama.cpp. */
const RELEVANT =
  /^(avx|avx2|f16c|fma|bmi2|avx512\w*|avx_vnni|amx\w*|asimd\w*|sve\w*|i8mm|bf16|fphp)$/;

export function readProcessor(): readonly string[] {
  const flags = /^(?:flags|Features)\s*: (.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1];
  return (flags ?? "")
    .split(" ")
    .filter((flag) => RELEVANT.test(flag))
    .toSorted(compareTexts);
}

/**
 * Returns the smallest difference between logprobs that counts as an error. It is `onSame` on a processor like the one
 * of the recording, and larger on other processors, whose kernels add in another order.
 */
export function logprobMax({ processor }: Recording<unknown>, onSame: number): number {
  return readProcessor().join(" ") === processor.join(" ") ? onSame : ON_OTHERS;
}

const ON_OTHERS = 0.05;

function compareTexts(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}
