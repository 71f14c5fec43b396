import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import type { SurfaceState } from "./companion/surface.ts";
import { closeClient, type Streamed, stream } from "./inference/client.ts";
import { type Figure, median, percentile } from "./report.ts";

const WARM = 100;
const ROUNDS = 400;
/** The number of tokens in a chat answer from which the time per token is measured. */
const TOKENS = 256;
const PACED = 12;
const PACED_TOKENS = 100;
const PACE_MS = 4;
/** The number of tokens in each chat answer while the benchmark measures memory. */
const SHORT_TOKENS = 16;
/** The number of chat turns after which `surface.ts`, the server under test, has created all objects that it keeps. */
const STEADY_TURN = 2_000;
const SAMPLE_TURNS = 500;
/**
 * The heap of the process `surface.ts` counts as stable if it grows by less than this size. Garbage collection is
 * irregular, so a smaller growth does not mean that memory leaks.
 */
const GROWTH_BYTES_MAX = 2 ** 20;

/**
 * Compares a streamed chat through the companion's port 7778, which writes the ledger to a disk and forwards the
 * request, with a direct request of the same client to the same provider, in alternating rounds. The provider and the
 * server of port 7778 (`surface.ts`) are separate processes. Then measures the memory of that server over many turns.
 */
export async function benchCompanion(turns: number): Promise<Figure[]> {
  // The benchmark's files are in the working directory, because a /tmp in memory would make flushes cost nothing.
  mkdirSync(".berth", { recursive: true });
  const dir = mkdtempSync(resolve(".berth/bench-companion-"));
  const provider = fork(join(import.meta.dirname, "companion/provider.ts"), options);
  try {
    const direct = await firstWord(provider);
    const script = join(import.meta.dirname, "companion/surface.ts");
    const surface = fork(script, [dir, direct], options);
    try {
      const via = await firstWord(surface);
      const state: AskState = async (word) => {
        const told = once(surface, "message");
        surface.send(word);
        return (await told)[0];
      };
      return [...(await benchTurns(via, direct, state)), await benchMemory(via, turns, state)];
    } finally {
      await ended(surface);
    }
  } finally {
    await ended(provider);
    closeClient();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Requests the state of the process `surface.ts`. With `memory`, the process collects garbage before it answers. */
type AskState = (word: "memory" | "state") => Promise<SurfaceState>;

const options = { execArgv: ["--import", "tsx"] };

async function firstWord(child: ChildProcess): Promise<string> {
  const [url]: [string] = (await once(child, "message")) as [string];
  return url;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.disconnect();
  await exit;
}

async function benchTurns(via: string, direct: string, state: AskState): Promise<Figure[]> {
  const took: { readonly via: Streamed[]; readonly direct: Streamed[] } = { via: [], direct: [] };
  for (let round = -WARM; round < ROUNDS; round += 1) {
    // The order of the two requests alternates, because the second request of a round finds a provider that is already
    // warm.
    const first = round % 2 === 0 ? "via" : "direct";
    for (const way of [first, first === "via" ? "direct" : "via"] as const) {
      const model = way === "via" ? "remote:bench:model" : "model";
      const url = way === "via" ? via : direct;
      const ask = (tokens: number) => stream(url, { prompt: "Hello", tokens, body: { model } });
      // Only one request runs at a time, because with concurrent requests the provider would compete with the measured
      // server of port 7778 for the processor.
      const { firstTokenMs } = await ask(1);
      const { restMs } = await ask(TOKENS);
      if (round >= 0) took[way].push({ firstTokenMs, restMs, tokens: TOKENS });
    }
  }
  const firsts = (way: "via" | "direct") => took[way].map(({ firstTokenMs }) => firstTokenMs);
  const each = (way: "via" | "direct") =>
    took[way].map(({ restMs }) => (restMs * 1000) / (TOKENS - 1));
  const [firstVia, firstDirect] = [median(firsts("via")), median(firsts("direct"))];
  const [eachVia, eachDirect] = [median(each("via")), median(each("direct"))];
  const [lateVia, lateDirect] = [
    await measureLateness(via, "remote:bench:model"),
    await measureLateness(direct, "model"),
  ];
  const { appendMs } = await state("state");
  const cpu = await measureTokenCpu(via, state);
  return [
    {
      name: "companion: time to first token through 7778, median",
      value: `${firstVia.toFixed(2)} ms`,
      floor: `${firstDirect.toFixed(2)} ms (the provider itself)`,
      ratio: `${signed(firstVia - firstDirect, 2)} ms`,
      aim: "< +2 ms",
      isMet: firstVia - firstDirect < 2,
      notes: [
        `p10 ${percentile(firsts("via"), 0.1).toFixed(2)} ms, of the provider itself ${percentile(firsts("direct"), 0.1).toFixed(2)} ms`,
        `p99 ${percentile(firsts("via"), 0.99).toFixed(2)} ms, of the provider itself ${percentile(firsts("direct"), 0.99).toFixed(2)} ms`,
        `of it one commit of the ledger, flushed to the disk: ${appendMs.toFixed(2)} ms`,
      ],
    },
    {
      name: "companion: each token through 7778, median",
      value: `${eachVia.toFixed(1)} us`,
      floor: `${eachDirect.toFixed(1)} us (the provider itself)`,
      ratio: `${signed(eachVia - eachDirect, 1)} us`,
      aim: "< +50 us",
      isMet: eachVia - eachDirect < 50,
      notes: [
        `processor time of the surface, all its threads: ${cpu.tokenUs.toFixed(0)} us a token, ${cpu.turnMs.toFixed(2)} ms a turn beside them`,
        `at one token every ${PACE_MS} ms, from sent to read: ${lateVia.toFixed(0)} us, from the provider itself ${lateDirect.toFixed(0)} us`,
      ],
    },
  ];
}

/**
 * Measures the CPU time that the server on port 7778 uses per token and per chat turn. Other load on the machine
 * changes CPU time less than latency.
 */
async function measureTokenCpu(
  via: string,
  state: AskState,
): Promise<{ readonly tokenUs: number; readonly turnMs: number }> {
  const of = async (tokens: number) => {
    const before = (await state("state")).cpuMs;
    for (let turn = 0; turn < WARM; turn += 1)
      await stream(via, { prompt: "Hello", tokens, body: { model: "remote:bench:model" } });
    return ((await state("state")).cpuMs - before) / WARM;
  };
  const [one, many] = [await of(1), await of(1 + TOKENS)];
  return { tokenUs: ((many - one) * 1000) / TOKENS, turnMs: one };
}

/**
 * Measures the time from the moment at which a slow provider sends a token to the moment at which the client reads it,
 * in microseconds.
 */
async function measureLateness(url: string, model: string): Promise<number> {
  const late: number[] = [];
  for (let turn = 0; turn < PACED; turn += 1) {
    await stream(url, {
      prompt: "Hello",
      tokens: PACED_TOKENS,
      body: { model, pace_ms: PACE_MS },
      onText: (text) => {
        const now = process.hrtime.bigint();
        for (const [, sent = "0"] of text.matchAll(/"content":" (\d+)"/g))
          late.push(Number(now - BigInt(sent)) / 1000);
      },
    });
  }
  return median(late);
}

async function benchMemory(via: string, turns: number, state: AskState): Promise<Figure> {
  const samples: { readonly turn: number; readonly told: SurfaceState }[] = [];
  const body = { model: "best" };
  for (let turn = 1; turn <= turns; turn += 1) {
    await stream(via, { prompt: `Turn ${turn}`, tokens: SHORT_TOKENS, body });
    if (turn % SAMPLE_TURNS === 0) samples.push({ turn, told: await state("memory") });
  }
  const steady = samples.filter(({ turn }) => turn >= Math.min(STEADY_TURN, turns / 5));
  const over = turns - (steady[0]?.turn ?? 0);
  const heap = slope(steady.map(({ turn, told }) => [turn, told.heapBytes]));
  const rss = slope(steady.map(({ turn, told }) => [turn, told.rssBytes]));
  const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1);
  const line = (sample: (typeof samples)[number] | undefined) =>
    sample
      ? `after ${sample.turn} turns: heap ${mib(sample.told.heapBytes)} MiB, resident ${mib(sample.told.rssBytes)} MiB`
      : "";
  return {
    name: `companion: memory over ${turns} turns`,
    value: `${heap.toFixed(0)} B/turn of heap`,
    floor: `${rss.toFixed(0)} B/turn resident`,
    ratio: `${signed((heap * over) / 2 ** 20, 1)} MiB`,
    aim: "flat (< 1 MiB)",
    isMet: heap * over < GROWTH_BYTES_MAX,
    notes: [line(samples[0]), line(steady[0]), line(steady.at(-1))],
  };
}

function signed(value: number, digits: number): string {
  return `${value < 0 ? "" : "+"}${value.toFixed(digits)}`;
}

/** Returns the slope of the least-squares line through the points. */
function slope(points: readonly (readonly [number, number])[]): number {
  const mean = (place: 0 | 1) =>
    points.reduce((sum, point) => sum + point[place], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const over = points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0);
  const under = points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
  return under === 0 ? 0 : over / under;
}
