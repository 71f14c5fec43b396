import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type {
  GenerateEvent,
  GenerateJob,
  LoadRequest,
} from "../../src/assistant/inference/inference-engine.ts";
import { LlamaEngine } from "../../src/assistant/inference/llama/llama-engine.ts";
import type { Sampling } from "../../src/assistant/inference/runner.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { uncontestedCores } from "../support/scripted-engine.ts";
import { plainSampling } from "./llama-runner-setup.ts";

export const never: AbortSignal = new AbortController().signal;

/** Creates an engine with one thread and its own folder for all tests of a file. */
export function setUpEngine(): () => LlamaEngine {
  const folders: string[] = [];
  let engine: LlamaEngine | undefined;
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]();
    for (const folder of folders) await rm(folder, { recursive: true, force: true });
  });
  return () => {
    if (!engine) {
      const cacheDir = join(tmpdir(), `berth-calibration-${process.pid}-${Math.random()}`);
      folders.push(cacheDir);
      engine = new LlamaEngine({ clock: systemClock, logger: silentLogger, threads: 1, cacheDir });
    }
    return engine;
  };
}

export function createLoadRequest(path: string, options: Partial<LoadRequest> = {}): LoadRequest {
  return {
    id: "acme/tiny",
    path,
    contextTokens: 512,
    sequences: 4,
    memoryBytesMax: 1e9,
    cores: uncontestedCores,
    ...options,
  };
}

export function createTextJob(
  text: string,
  options: Partial<GenerateJob> = {},
  sampling: Partial<Sampling> = {},
): GenerateJob {
  return {
    prompt: { kind: "text", text },
    priority: "interactive",
    sampling: { ...plainSampling, ...sampling },
    maxTokens: 20,
    stop: [],
    ...options,
  };
}

export async function collectEvents(events: AsyncIterable<GenerateEvent>) {
  const all: GenerateEvent[] = [];
  for await (const event of events) all.push(event);
  const text = all.map((event) => (event.type === "text" ? event.text : "")).join("");
  return { events: all, text, end: all.at(-1) };
}
