import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLedger } from "../../src/assistant/ledger/ledger.ts";
import { systemClock } from "../../src/base/clock.ts";
import { getModelFile, type Preset } from "../../test/support/gguf/preset-model.ts";
import { type Figure, median } from "../report.ts";
import { closeClient, post, stream, throughput } from "./client.ts";
import { BareLlama, type BenchDaemon, startDaemon, startLlamaServer } from "./daemon.ts";

const ROUNDS = 5;
const WORDS = "the quick brown fox jumps over the lazy dog ";

/** The benchmark's settings for one model. */
interface Load {
  readonly preset: Preset;
  readonly answerTokens: number;
  /**
   * The aims for the tokens per second of Berth divided by those of node-llama-cpp alone, with one stream and with
   * eight; undefined if the model has no aims.
   */
  readonly aims: { readonly one: number; readonly eight: number } | undefined;
}

const loads: readonly Load[] = [
  { preset: "mid-q8", answerTokens: 96, aims: { one: 0.95, eight: 0.9 } },
  { preset: "tiny", answerTokens: 512, aims: undefined },
];

/**
 * Compares Berth over HTTP with node-llama-cpp alone, with the same model, threads and sampling, in alternating rounds.
 * Also measures embeddings, and how much background work, schemas and the ledger slow a generation down. With
 * `LLAMA_SERVER=path`, llama-server is measured in the same rounds. `only` selects one model: `mid-q8`, `tiny` or
 * `embedding`.
 */
export async function benchInference(only: string | undefined): Promise<Figure[]> {
  const figures: Figure[] = [];
  try {
    for (const load of loads)
      if (only === undefined || only === load.preset) figures.push(...(await benchModel(load)));
    if (only === undefined || only === "embedding") figures.push(await benchEmbeddings());
  } finally {
    closeClient();
  }
  return figures;
}

async function benchModel(load: Load): Promise<Figure[]> {
  const model = await getModelFile(load.preset, { endsAfter: null });
  await using daemon = await startDaemon(model, ["--context", "2048", "--parallel", "8"]);
  const figures: Figure[] = [];
  {
    await using bare = await BareLlama.start(model, daemon.threads);
    figures.push(
      ...(await benchSpeed(load, daemon, bare)),
      await benchFirstToken(load, daemon, bare),
    );
  }
  figures.push(
    await benchWarm(load, daemon),
    await benchSchema(load, daemon),
    ...(await benchBackground(load, daemon)),
    await benchLedgerShare(load, daemon),
  );
  const server = process.env["LLAMA_SERVER"];
  if (server) figures.push(...(await benchPeer(load, daemon, server, model)));
  return figures;
}

async function benchSpeed(load: Load, daemon: BenchDaemon, bare: BareLlama): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const streams of [1, 8] as const) {
    const pairs: { berth: number; bare: number }[] = [];
    for (let round = -1; round < ROUNDS; round++) {
      const floor = await bare.run({
        promptTokens: 16,
        answerTokens: load.answerTokens,
        streams,
        isCold: false,
      });
      const berth = await throughput(daemon.url, streams, {
        prompt: WORDS,
        tokens: load.answerTokens,
      });
      // The first round is a warm-up.
      if (round >= 0) pairs.push({ berth, bare: floor.tokensPerSecond });
    }
    const ratio = median(pairs.map((pair) => pair.berth / pair.bare));
    const aim = streams === 1 ? load.aims?.one : load.aims?.eight;
    figures.push({
      name: `${load.preset}, tokens/s of ${streams} ${streams === 1 ? "stream" : "streams"}`,
      value: median(pairs.map((pair) => pair.berth)).toFixed(0),
      floor: `${median(pairs.map((pair) => pair.bare)).toFixed(0)} library alone, ${daemon.threads} threads`,
      ratio: ratio.toFixed(2),
      aim: aim === undefined ? "-" : `>= ${aim}`,
      isMet: aim === undefined ? undefined : ratio >= aim,
    });
  }
  return figures;
}

async function benchFirstToken(load: Load, daemon: BenchDaemon, bare: BareLlama): Promise<Figure> {
  const pairs: { berth: number; bare: number }[] = [];
  const promptTokens = await countTokens(daemon.url, longPrompt(-2));
  for (let round = -1; round < ROUNDS; round++) {
    const floor = await bare.run({
      promptTokens,
      answerTokens: 2,
      streams: 1,
      isCold: true,
    });
    const berth = await stream(daemon.url, { prompt: longPrompt(round), tokens: 2 });
    if (round >= 0) pairs.push({ berth: berth.firstTokenMs, bare: floor.firstTokenMs });
  }
  const ratio = median(pairs.map((pair) => pair.berth / pair.bare));
  return {
    name: `${load.preset}, first token of a cold prompt of ${promptTokens} tokens`,
    value: `${median(pairs.map((pair) => pair.berth)).toFixed(0)} ms`,
    floor: `${median(pairs.map((pair) => pair.bare)).toFixed(0)} ms library alone`,
    ratio: ratio.toFixed(2),
    aim: "-",
    isMet: undefined,
  };
}

/** Returns a prompt of some 500 tokens that shares no prefix with those of other rounds. */
function longPrompt(round: number): string {
  return `${round} ${Math.random()} ${WORDS.repeat(20)}`;
}

async function countTokens(url: string, prompt: string): Promise<number> {
  const answer = (await post(url, "/v1/chat/completions", {
    messages: [{ role: "user", content: prompt }],
    max_tokens: 1,
  })) as { readonly usage: { readonly prompt_tokens: number } };
  return answer.usage.prompt_tokens;
}

async function benchWarm(load: Load, daemon: BenchDaemon): Promise<Figure> {
  const pairs: { cold: number; warm: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const prompt = longPrompt(round);
    const cold = await stream(daemon.url, { prompt, tokens: 2 });
    const warm = await stream(daemon.url, { prompt: `${prompt} And then?`, tokens: 2 });
    pairs.push({ cold: cold.firstTokenMs, warm: warm.firstTokenMs });
  }
  const ratio = median(pairs.map((pair) => pair.warm / pair.cold));
  return {
    name: `${load.preset}, first token with a warm prefix`,
    value: `${median(pairs.map((pair) => pair.warm)).toFixed(0)} ms`,
    floor: `${median(pairs.map((pair) => pair.cold)).toFixed(0)} ms cold`,
    ratio: ratio.toFixed(2),
    aim: "-",
    isMet: undefined,
  };
}

async function benchSchema(load: Load, daemon: BenchDaemon): Promise<Figure> {
  const schema = {
    type: "array",
    items: {
      type: "object",
      properties: {
        name: { type: "string", minLength: 20, maxLength: 40 },
        count: { type: "integer", minimum: 0, maximum: 1_000_000 },
        kind: { enum: ["fruit", "vegetable", "neither"] },
      },
      required: ["name", "count", "kind"],
    },
    minItems: 500,
  };
  const body = { response_format: { type: "json_schema", json_schema: { name: "list", schema } } };
  const pairs: { guided: number; free: number }[] = [];
  for (let round = -1; round < ROUNDS; round++) {
    const options = { prompt: WORDS, tokens: load.answerTokens };
    const guided = await throughput(daemon.url, 1, { ...options, body });
    const free = await throughput(daemon.url, 1, options);
    if (round >= 0) pairs.push({ guided, free });
  }
  const ratio = median(pairs.map((pair) => pair.guided / pair.free));
  const aim = load.aims ? 0.9 : undefined;
  return {
    name: `${load.preset}, tokens/s with a schema`,
    value: median(pairs.map((pair) => pair.guided)).toFixed(0),
    floor: `${median(pairs.map((pair) => pair.free)).toFixed(0)} without`,
    ratio: ratio.toFixed(2),
    aim: aim === undefined ? "-" : `>= ${aim}`,
    isMet: aim === undefined ? undefined : ratio >= aim,
  };
}

/**
 * Measures an interactive stream next to six background streams, and an interactive stream that starts while background
 * streams use all eight sequences.
 */
async function benchBackground(load: Load, daemon: BenchDaemon): Promise<Figure[]> {
  const options = { prompt: `${WORDS} again`, tokens: load.answerTokens };
  const rounds: { alone: Speed; beside: Speed; admission: number }[] = [];
  for (let round = -1; round < ROUNDS; round++) {
    await daemon.idle();
    const alone = computeSpeed(await stream(daemon.url, options), options.tokens);
    const beside = await withBackgroundLoad(daemon.url, 6, async () =>
      computeSpeed(await stream(daemon.url, options), options.tokens),
    );
    await daemon.idle();
    const admission = await withBackgroundLoad(
      daemon.url,
      8,
      async () => (await stream(daemon.url, { ...options, tokens: 2 })).firstTokenMs,
    );
    if (round >= 0) rounds.push({ alone, beside, admission });
  }
  const ratio = median(rounds.map(({ alone, beside }) => beside.perSecond / alone.perSecond));
  const stepMs = 1000 / median(rounds.map(({ alone }) => alone.perSecond));
  const later = median(rounds.map(({ alone, beside }) => beside.firstMs - alone.firstMs));
  const waited = median(rounds.map(({ alone, admission }) => admission - alone.firstMs));
  return [
    {
      name: `${load.preset}, interactive tokens/s with six background streams`,
      value: median(rounds.map(({ beside }) => beside.perSecond)).toFixed(0),
      floor: `${median(rounds.map(({ alone }) => alone.perSecond)).toFixed(0)} alone`,
      ratio: ratio.toFixed(2),
      aim: ">= 0.95",
      isMet: ratio >= 0.95,
    },
    {
      name: `${load.preset}, its first token`,
      value: `${median(rounds.map(({ beside }) => beside.firstMs)).toFixed(0)} ms`,
      floor: `${median(rounds.map(({ alone }) => alone.firstMs)).toFixed(0)} ms alone, a step is ${stepMs.toFixed(1)} ms`,
      ratio: `${(later / stepMs).toFixed(1)} steps later`,
      aim: "<= 2 steps",
      isMet: later / stepMs <= 2,
    },
    {
      name: `${load.preset}, admission while background streams use all sequences`,
      value: `${median(rounds.map((one) => one.admission)).toFixed(0)} ms to the first token`,
      floor: `${median(rounds.map(({ alone }) => alone.firstMs)).toFixed(0)} ms alone`,
      ratio: `${waited.toFixed(0)} ms later`,
      aim: "< 100 ms later",
      isMet: waited < 100,
    },
  ];
}

interface Speed {
  readonly perSecond: number;
  readonly firstMs: number;
}

function computeSpeed(
  { firstTokenMs, restMs }: { firstTokenMs: number; restMs: number },
  tokens: number,
): Speed {
  return { firstMs: firstTokenMs, perSecond: ((tokens - 1) * 1000) / restMs };
}

/** Runs `task` when each of `count` background streams has produced text. */
async function withBackgroundLoad<T>(
  url: string,
  count: number,
  task: () => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const running: Promise<unknown>[] = [];
  await Promise.all(
    Array.from(
      { length: count },
      (_, index) =>
        new Promise<void>((resolve) => {
          running.push(
            stream(url, {
              prompt: `background ${index}`,
              tokens: 1_900,
              body: { svc_priority: "background" },
              signal: ending.signal,
              onFirst: resolve,
            }).catch(() => {}),
          );
        }),
    ),
  );
  try {
    return await task();
  } finally {
    ending.abort();
    await Promise.all(running);
  }
}

/** Compares one durable append to the ledger, which each request causes, with a whole request of 32 tokens. */
async function benchLedgerShare(load: Load, daemon: BenchDaemon): Promise<Figure> {
  const dir = await mkdtemp(join(tmpdir(), "berth-bench-ledger-"));
  const pairs: { append: number; request: number }[] = [];
  try {
    await using ledger = await openLedger({ dir, clock: systemClock });
    for (let round = -2; round < 4 * ROUNDS; round++) {
      const begun = performance.now();
      await ledger.append({
        name: "inference.generate",
        fields: { model: "m", round },
        sealed: { prompts_sha256: "0".repeat(64) },
      });
      const append = performance.now() - begun;
      const { firstTokenMs, restMs } = await stream(daemon.url, { prompt: WORDS, tokens: 32 });
      if (round >= 0) pairs.push({ append, request: firstTokenMs + restMs });
    }
  } finally {
    await rm(dir, { recursive: true });
  }
  const ratio = median(pairs.map(({ append, request }) => append / request));
  const aim = load.aims ? 0.05 : undefined;
  return {
    name: `${load.preset}, ledger's part of a request of 32 tokens`,
    value: `${median(pairs.map(({ append }) => append)).toFixed(2)} ms`,
    floor: `${median(pairs.map(({ request }) => request)).toFixed(0)} ms for the request`,
    ratio: ratio.toFixed(3),
    aim: aim === undefined ? "-" : `< ${aim}`,
    isMet: aim === undefined ? undefined : ratio < aim,
  };
}

async function benchPeer(
  load: Load,
  daemon: BenchDaemon,
  program: string,
  model: string,
): Promise<Figure[]> {
  await using peer = await startLlamaServer(program, model, daemon.threads);
  const figures: Figure[] = [];
  for (const streams of [1, 8]) {
    const options = { prompt: WORDS, tokens: load.answerTokens };
    const pairs: { ours: number; theirs: number }[] = [];
    for (let round = -1; round < ROUNDS; round++) {
      const theirs = await throughput(peer.url, streams, options);
      const ours = await throughput(daemon.url, streams, options);
      if (round >= 0) pairs.push({ ours, theirs });
    }
    const ratio = median(pairs.map(({ ours, theirs }) => ours / theirs));
    figures.push({
      name: `${load.preset}, tokens/s of ${streams} against llama-server`,
      value: median(pairs.map(({ ours }) => ours)).toFixed(0),
      floor: `${median(pairs.map(({ theirs }) => theirs)).toFixed(0)} llama-server`,
      ratio: ratio.toFixed(2),
      aim: load.aims ? ">= 1" : "-",
      isMet: load.aims ? ratio >= 1 : undefined,
    });
  }
  return figures;
}

const TEXTS = 1_000;

async function benchEmbeddings(): Promise<Figure> {
  const model = await getModelFile("embedding");
  await using daemon = await startDaemon(model);
  const texts = Array.from(
    { length: TEXTS },
    (_, index) => `${index} ${WORDS.repeat(1 + (index % 4))}`,
  );
  const pairs: { together: number; single: number }[] = [];
  for (let round = -1; round < 3; round++) {
    const begun = performance.now();
    await post(daemon.url, "/v1/embeddings", { input: texts });
    const together = performance.now() - begun;
    const again = performance.now();
    for (const text of texts) await post(daemon.url, "/v1/embeddings", { input: text });
    const single = performance.now() - again;
    if (round >= 0) pairs.push({ together, single });
  }
  const ratio = median(pairs.map(({ together, single }) => single / together));
  return {
    name: `${TEXTS} embeddings in one request`,
    value: `${median(pairs.map(({ together }) => together)).toFixed(0)} ms`,
    floor: `${median(pairs.map(({ single }) => single)).toFixed(0)} ms one by one`,
    ratio: `${ratio.toFixed(2)} times faster`,
    aim: ">= 1.8",
    isMet: ratio >= 1.8,
  };
}
