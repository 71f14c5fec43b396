import { type ChildProcess, spawn } from "node:child_process";
import { expect, it } from "vitest";
import { CoreArbiter } from "../../src/assistant/inference/models/core-arbiter.ts";
import { systemClock } from "../../src/base/clock.ts";
import { Dice } from "../support/random.ts";
import { SEED } from "../support/sampling.ts";
import { compareLogprobs, repeatInFreshContext } from "./fresh-context.ts";
import { createLoadRequest, never, setUpEngine } from "./llama-engine-setup.ts";
import { getModelPath, type RunnerSetup } from "./llama-runner-setup.ts";
import { type Answered, runMixedWork } from "./mixed-work.ts";

/**
 * BERTH_SOAK_MINUTES is the number of minutes for which the clients send requests, while another program occupies a
 * core from time to time. BERTH_SOAK_MODEL is the path of a model that replaces the generated one.
 */
const MINUTES = Number(process.env["BERTH_SOAK_MINUTES"] ?? 0);
const REQUESTS = 16;
const REPORT_EVERY_MS = 300_000;
const path = process.env["BERTH_SOAK_MODEL"];
const generated: RunnerSetup = { preset: "layers", options: { endsAfter: null } };
const setup: RunnerSetup = {
  ...(path === undefined ? generated : { preset: { path } }),
  contextTokens: 2_047,
};

const engine = setUpEngine();

interface Tally {
  compared: number;
  largest: number;
  readonly wrong: Pick<Answered, "prompt" | "temperature">[];
}

/** Prints a line, so that a run that is interrupted shows what it has found. */
function report(isDeterministic: boolean, { compared, largest, wrong }: Tally): void {
  const subject = isDeterministic ? "whole answers" : "first tokens";
  process.stdout.write(
    `compared ${compared} ${subject}, ${wrong.length} wrong, largest difference of first tokens ${largest}\n`,
  );
}

/** Occupies a core for five seconds in every thirty; returns a function that ends this. */
function occupyCore(): () => void {
  let busy: ChildProcess | undefined;
  const begin = () => {
    busy = spawn(process.execPath, [
      "-e",
      "const end = Date.now() + 5e3; while (Date.now() < end);",
    ]);
  };
  const timer = setInterval(begin, 30_000);
  return () => {
    clearInterval(timer);
    busy?.kill("SIGKILL");
  };
}

async function soak(isDeterministic: boolean, arbiter: CoreArbiter, seed: number): Promise<Tally> {
  const options = { ...setup, isDeterministic };
  const request = createLoadRequest(await getModelPath(setup), {
    id: isDeterministic ? "exact" : "default",
    contextTokens: setup.contextTokens,
    sequences: 4,
    isDeterministic,
    memoryBytesMax: 8e9,
    cores: arbiter.createCores(),
  });
  await using model = await engine().load(request, never);
  const tally: Tally = { compared: 0, largest: 0, wrong: [] };
  const until = Date.now() + MINUTES * 60_000;
  let reportAt = Date.now() + REPORT_EVERY_MS;
  let requests = 0;
  await runMixedWork(model, {
    dice: new Dice(seed),
    clients: 8,
    wordsMax: isDeterministic ? 300 : 180,
    answerTokensMax: 30,
    goesOn: () => (MINUTES > 0 ? Date.now() < until : requests++ < REQUESTS),
    onAnswered: async (answered) => {
      const { logprobs, promptTokens, goesOn, maxTokens } = answered;
      if (MINUTES > 0 && Date.now() > until) return;
      if (logprobs.length === 0 || (!isDeterministic && (goesOn || promptTokens >= 512))) return;
      const repeated = await repeatInFreshContext(
        options,
        answered,
        isDeterministic ? maxTokens : 1,
      );
      const difference = compareLogprobs(repeated[0], logprobs[0]);
      tally.compared++;
      tally.largest = Math.max(tally.largest, difference);
      const isRight = isDeterministic
        ? JSON.stringify(repeated.slice(0, logprobs.length)) === JSON.stringify(logprobs)
        : difference < 0.001;
      if (!isRight) tally.wrong.push(answered);
      if (Date.now() > reportAt) {
        reportAt += REPORT_EVERY_MS;
        report(isDeterministic, tally);
      }
    },
  });
  return tally;
}

it(
  "two models under mixed load give the answers that each request gets alone in a fresh context",
  async () => {
    process.stdout.write(`BERTH_SEED=${SEED}\n`);
    const arbiter = new CoreArbiter({ clock: systemClock });
    const release = MINUTES > 0 ? occupyCore() : () => {};
    const [byDefault, exact] = await Promise.all([
      soak(false, arbiter, SEED),
      soak(true, arbiter, SEED + 1),
    ]).finally(release);
    report(false, byDefault);
    report(true, exact);
    expect(byDefault.compared).toBeGreaterThan(0);
    expect(exact.compared).toBeGreaterThan(0);
    expect(byDefault.wrong).toEqual([]);
    expect(exact.wrong).toEqual([]);
  },
  // On a busy machine the last answers take long, and an hour of requests may need more than an hour.
  (2 * MINUTES + 5) * 60_000,
);
