import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PieceRule } from "../../../../../src/assistant/inference/runner.ts";
import type { GenerationReader } from "../../../../support/generation-reader.ts";
import { noLeftovers, SchedulerHarness } from "../../../../support/scheduler-harness.ts";

/**
 * The text of each token for a reader that pauses. It is so long that four unread tokens exceed the limit of unread
 * characters.
 */
const SLOW_TEXT = ".".repeat(20_000);
const SHARED = "This is what all of the prompts begin with. ";

interface JobPlan {
  readonly atMs: number;
  readonly background: boolean;
  /** The number of the prompt's tokens that other jobs have in common with it. */
  readonly shared: number;
  readonly answer: number;
  readonly maxTokens: number | undefined;
  readonly stopAt: number | undefined;
  readonly failAt: number | undefined;
  readonly leavesAfterMs: number | undefined;
  /** The time after the start at which the reader stops reading, and the time for which it stops. */
  readonly silence: { readonly fromMs: number; readonly forMs: number } | undefined;
}

interface LoadPlan {
  readonly sequences: number;
  readonly pieces: PieceRule;
  readonly jobs: readonly JobPlan[];
}

function optionally<T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: value },
  );
}

const job: fc.Arbitrary<JobPlan> = fc.record({
  atMs: fc.nat(800),
  background: fc.boolean(),
  shared: fc.nat(SHARED.length),
  answer: fc.nat(40),
  maxTokens: optionally(fc.integer({ min: 1, max: 30 })),
  stopAt: optionally(fc.nat(30)),
  failAt: optionally(fc.nat(60)),
  leavesAfterMs: optionally(fc.nat(600)),
  silence: optionally(
    fc.record({ fromMs: fc.nat(200), forMs: fc.integer({ min: 1, max: 12_000 }) }),
  ),
});

const pieceRule: fc.Arbitrary<PieceRule> = fc.oneof(
  fc.integer({ min: 3, max: 20 }).map((narrowTokensMax) => ({
    wideTokens: Number.POSITIVE_INFINITY,
    narrowTokensMax,
    groupTokens: 1,
    isExact: false,
  })),
  fc.boolean().map((isExact) => ({ wideTokens: 16, narrowTokensMax: 6, groupTokens: 2, isExact })),
);

const load: fc.Arbitrary<LoadPlan> = fc.record({
  sequences: fc.integer({ min: 1, max: 4 }),
  pieces: pieceRule,
  jobs: fc.array(job, { minLength: 1, maxLength: 14 }),
});

function getPrompt(plan: JobPlan, number: number): string {
  return `${SHARED.slice(0, plan.shared)}#${number}`;
}

function getScriptedTokens(plan: JobPlan, number: number): string[] {
  const rest = plan.silence ? SLOW_TEXT : "";
  return Array.from({ length: plan.answer }, (_, at) => `<${number}:${at}>${rest}`);
}

/** Returns the expected end of a job that is not cancelled. */
function getExpected(plan: JobPlan, number: number) {
  const tokens = getScriptedTokens(plan, number);
  const max = plan.maxTokens ?? Number.POSITIVE_INFINITY;
  const answer = tokens.slice(0, Math.min(max, plan.failAt ?? max)).join("");
  const cut = plan.stopAt === undefined ? -1 : answer.indexOf(getStopText(plan, number));
  if (cut !== -1) return { text: answer.slice(0, cut), end: "stop" };
  if (max <= Math.min(tokens.length, plan.failAt ?? max)) return { text: answer, end: "length" };
  if (plan.failAt !== undefined && plan.failAt <= tokens.length) {
    // Text that was held back when the job failed is not emitted.
    const held =
      plan.stopAt === undefined ? 0 : getPartialStopLength(answer, getStopText(plan, number));
    return { text: answer.slice(0, answer.length - held), end: "failed" };
  }
  return { text: answer, end: "stop" };
}

/** Returns the length of the longest proper prefix of `stop` with which `text` ends. */
function getPartialStopLength(text: string, stop: string): number {
  let length = stop.length - 1;
  while (!text.endsWith(stop.slice(0, length))) length -= 1;
  return length;
}

/** Returns a stop text that begins in one token and ends in the next. */
function getStopText(plan: JobPlan, number: number): string {
  const at = plan.stopAt ?? 0;
  return plan.silence ? `${at}>.` : `${at}><${number}:`;
}

interface LoadRun {
  readonly harness: SchedulerHarness;
  readonly readers: readonly GenerationReader[];
  readonly cancelled: readonly boolean[];
  /** For each job, the number of runner calls before the job arrived. */
  readonly arrivals: readonly number[];
}

async function runLoad(plan: LoadPlan): Promise<LoadRun> {
  const byPrompt = new Map(plan.jobs.map((one, number) => [getPrompt(one, number), number]));
  const harness = new SchedulerHarness({
    sequences: plan.sequences,
    pieces: plan.pieces,
    contextTokens: 128,
    script: (prompt) => {
      const number = byPrompt.get(prompt) ?? -1;
      const one = plan.jobs[number];
      if (!one) throw new Error(`no job has the prompt ${prompt}`);
      return { tokens: getScriptedTokens(one, number), failAt: one.failAt };
    },
  });
  const readers: GenerationReader[] = [];
  const left: boolean[] = [];
  const arrivals: number[] = [];
  for (const [number, one] of plan.jobs.entries()) {
    harness.clock.setTimer(one.atMs, () => {
      const leaving = new AbortController();
      arrivals[number] = harness.runner.calls.length;
      const reader = harness.ask(
        getPrompt(one, number),
        {
          priority: one.background ? "background" : "interactive",
          maxTokens: one.maxTokens,
          stop: one.stopAt === undefined ? [] : [getStopText(one, number)],
        },
        leaving,
      );
      readers[number] = reader;
      if (one.silence) {
        const { fromMs, forMs } = one.silence;
        harness.clock.setTimer(fromMs, () => {
          const resumeReading = reader.pause();
          harness.clock.setTimer(forMs, resumeReading);
        });
      }
      if (one.leavesAfterMs === undefined) return;
      harness.clock.setTimer(one.leavesAfterMs, () => {
        left[number] = !reader.isOver;
        leaving.abort(new Error("cancelled"));
      });
    });
  }
  await harness.until(
    () => readers.filter((reader) => reader?.isOver).length === plan.jobs.length,
    "all jobs have ended",
    200_000,
  );
  return { harness, readers, cancelled: left, arrivals };
}

describe("the scheduler under random load", () => {
  it("completes each answer, and leaves no state behind", async () => {
    const property = fc.asyncProperty(load, async (plan) => {
      const { harness, readers, cancelled: left } = await runLoad(plan);
      for (const [number, one] of plan.jobs.entries()) {
        const reader = readers[number];
        const expected = getExpected(one, number);
        // A client that cancels after the end of the generation may still read the whole answer.
        if (left[number] && String(reader?.error) === "Error: cancelled") {
          expect(expected.text.startsWith(reader?.text ?? "?")).toBe(true);
          continue;
        }
        expect(reader?.text).toBe(expected.text);
        if (expected.end === "failed")
          expect(reader?.error).toMatchObject({ code: "engine_failed" });
        else expect(reader?.end?.reason).toBe(expected.end);
      }
      expect(await harness.findLeftovers()).toEqual(noLeftovers);
    });
    await fc.assert(property, { numRuns: 80 });
  }, 60_000);

  it("includes a running interactive job in every step while its client reads", async () => {
    const quick = job.map((one) => ({ ...one, silence: one.background ? one.silence : undefined }));
    const plans = load.chain((plan) =>
      fc.record({
        sequences: fc.constant(plan.sequences),
        pieces: fc.constant(plan.pieces),
        jobs: fc.array(quick, { minLength: 2, maxLength: 14 }),
      }),
    );
    const property = fc.asyncProperty(plans, async (plan) => {
      const { harness } = await runLoad(plan);
      const calls = harness.runner.calls.filter(
        ({ kind }) => kind === "step" || kind === "prefill",
      );
      for (const [number, one] of plan.jobs.entries()) {
        if (one.background) continue;
        const prompt = getPrompt(one, number);
        const first = calls.findIndex(({ prompts }) => prompts.includes(prompt));
        const last = calls.findLastIndex(({ prompts }) => prompts.includes(prompt));
        const during = calls.slice(first, last + 1);
        const steps = during.filter(({ kind }) => kind === "step");
        expect(steps.every(({ prompts }) => prompts.includes(prompt))).toBe(true);
        const reading = during.map(({ kind }) => kind).join(" ");
        expect(reading).not.toContain("prefill prefill");
        // At most one of 32 runner calls may include background work, which has waited for a long time.
        const mixed = steps.filter(({ prompts }) => prompts.some((who) => isBackground(plan, who)));
        expect(mixed.length).toBeLessThanOrEqual(1 + Math.floor(during.length / 32));
      }
      expect(await harness.findLeftovers()).toEqual(noLeftovers);
    });
    await fc.assert(property, { numRuns: 100 });
  }, 60_000);

  it("delays an interactive job by at most one background step if a sequence can be freed", async () => {
    const few = fc.record({
      sequences: fc.constant(3),
      pieces: pieceRule,
      jobs: fc
        .tuple(
          fc.array(
            job.map((one) => ({ ...one, background: true })),
            { minLength: 3, maxLength: 8 },
          ),
          fc.array(
            job.map((one) => ({ ...one, background: false, silence: undefined })),
            { minLength: 1, maxLength: 3 },
          ),
        )
        .map(([background, interactive]) => [...background, ...interactive]),
    });
    const property = fc.asyncProperty(few, async (plan) => {
      const { harness, arrivals } = await runLoad(plan);
      for (const [number, one] of plan.jobs.entries()) {
        if (one.background) continue;
        const prompt = getPrompt(one, number);
        const last = harness.runner.calls.findLastIndex(
          ({ kind, prompts }) => kind === "step" && prompts.includes(prompt),
        );
        const during = harness.runner.calls.slice(arrivals[number], Math.max(0, last));
        const turns = during.filter(({ kind }) => kind === "step" || kind === "prefill").length;
        const inverted = during.filter(
          ({ kind, prompts }) => kind === "step" && prompts.some((who) => isBackground(plan, who)),
        );
        expect(inverted.length).toBeLessThanOrEqual(1 + Math.ceil(turns / 32));
        const alone = inverted.filter(({ prompts }) =>
          prompts.every((who) => isBackground(plan, who)),
        );
        expect(alone.length).toBeLessThanOrEqual(1 + Math.floor(turns / 32));
      }
      expect(await harness.findLeftovers()).toEqual(noLeftovers);
    });
    await fc.assert(property, { numRuns: 100 });
  }, 60_000);

  it("starves no background job under endless interactive requests", async () => {
    const plans = fc.record({
      sequences: fc.integer({ min: 1, max: 3 }),
      clients: fc.integer({ min: 1, max: 5 }),
      answer: fc.integer({ min: 1, max: 20 }),
      prompt: fc.integer({ min: 1, max: 30 }),
      background: fc.array(
        fc.record({
          prompt: fc.integer({ min: 1, max: 40 }),
          answer: fc.integer({ min: 1, max: 70 }),
        }),
        { minLength: 1, maxLength: 3 },
      ),
    });
    const property = fc.asyncProperty(plans, async (plan) => {
      const harness = new SchedulerHarness({
        sequences: plan.sequences,
        contextTokens: 128,
        script: (prompt) => {
          const own = plan.background[Number(prompt.split("|")[1])];
          return {
            tokens: Array.from({ length: own?.answer ?? plan.answer }, (_, at) => `${at} `),
          };
        },
      });
      const background = plan.background.map(({ prompt }, number) =>
        harness.askInBackground(`|${number}|${"b".repeat(prompt)}`),
      );
      const clients = Array.from({ length: plan.clients }, () => harness.ask("first"));
      let requestCount = 0;
      const done = () => background.every(({ isOver: over }) => over);
      // An interactive job that is already running can delay a background job by the duration of one answer. A
      // background job that has waited long gets one of 32 runner calls.
      const answerMs = (plan.answer + plan.prompt + 2) * 10 * 2;
      const limitMs = plan.background.reduce((sum, { prompt, answer }) => {
        const shares = Math.ceil(answer / 32) + 1;
        const ownTurns = Math.ceil((prompt + answer) / 8) + 34;
        return sum + shares * (34 * answerMs * plan.clients + ownTurns * 33 * 10);
      }, 0);
      await harness.until(
        () => {
          for (const [at, client] of clients.entries()) {
            if (!client.isOver || done()) continue;
            requestCount += 1;
            clients[at] = harness.ask(`${requestCount}`.padStart(plan.prompt, "i"));
          }
          return done();
        },
        "the background jobs have ended",
        limitMs,
      );
      for (const [number, reader] of background.entries())
        expect(reader.end?.completionTokens).toBe((plan.background[number]?.answer ?? 0) + 1);
      await harness.untilOver(...clients);
      expect(await harness.findLeftovers()).toEqual(noLeftovers);
    });
    await fc.assert(property, { numRuns: 25 });
  }, 60_000);
});

function isBackground(plan: LoadPlan, prompt: string): boolean {
  return plan.jobs[Number(prompt.split("#")[1])]?.background ?? false;
}
