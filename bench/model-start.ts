import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { getModelFile } from "../test/support/gguf/preset-model.ts";
import { stream } from "./inference/client.ts";
import { readState } from "./inference/daemon.ts";
import { type Figure, median, seconds } from "./report.ts";
import { BenchServer } from "./server.ts";

const ROUNDS = 7;
const AIM = 1.2;
const CONTEXT_TOKENS = 2_048;
const SEQUENCES = 8;
/** The address of an engine that does not exist, because this benchmark needs none. */
const NO_ENGINE = "unix:///nowhere/docker.sock";

/**
 * Compares the time from `POST /api/llm/start` of a downloaded model to the first token of a chat with the time that
 * the library needs to load the same file in a new process and generate one token. The very first start also measures
 * which number of threads is fastest; the notes contain the duration of that start.
 */
export async function benchModelStart(): Promise<Figure[]> {
  const path = await getModelFile("mid-q8");
  await using server = await BenchServer.start(NO_ENGINE, { assistant: true });
  const assistant = await server.assistantUrl();
  const spec = { source: path, contextSize: CONTEXT_TOKENS, parallel: SEQUENCES };
  const manifest = { apiVersion: "berth.dev/v1", kind: "Model", metadata: { name: "m" }, spec };
  await server.post("/api/apply", { manifests: [manifest] });
  await server.post("/api/llm/models/m/download?wait=true&timeout=60s");

  const start = async (): Promise<{ readonly loadMs: number; readonly totalMs: number }> => {
    const begun = performance.now();
    await server.post("/api/llm/start?wait=true&timeout=60s", { model: "m" });
    const loadMs = performance.now() - begun;
    const prompt = "the quick brown fox jumps over the lazy dog";
    const { firstTokenMs } = await stream(assistant, { prompt, tokens: 1, body: { model: "m" } });
    return { loadMs, totalMs: loadMs + firstTokenMs };
  };
  const stop = () => server.post("/api/llm/stop?wait=true&timeout=60s");
  const first = await start();
  const threads = (await readState(server.controlSocket)).models[0]?.threads ?? 1;
  await stop();
  const berth: number[] = [];
  const loads: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    bare.push(await bareLoad(path, threads));
    const { loadMs, totalMs } = await start();
    berth.push(totalMs);
    loads.push(loadMs);
    await stop();
  }
  const ratio = median(berth.map((ms, round) => ms / (bare[round] ?? ms)));
  return [
    {
      name: "start of a model to its first token",
      value: seconds(median(berth)),
      floor: `${seconds(median(bare))} library alone, ${threads} threads`,
      ratio: ratio.toFixed(2),
      aim: `<= ${AIM}`,
      isMet: ratio <= AIM,
      notes: [
        `until it runs: ${seconds(median(loads))}`,
        `the very first start, which measures the threads: ${seconds(first.totalMs)}`,
      ],
    },
  ];
}

async function bareLoad(path: string, threads: number): Promise<number> {
  const begun = performance.now();
  const child = fork(join(import.meta.dirname, "inference/bare-load.mjs"), [
    path,
    ...[threads, CONTEXT_TOKENS, SEQUENCES].map(String),
  ]);
  await once(child, "message");
  const ms = performance.now() - begun;
  child.kill();
  await once(child, "exit");
  return ms;
}
