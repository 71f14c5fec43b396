import { afterEach, expect, test } from "vitest";
import { BerthError } from "../../src/base/errors.ts";
import {
  RETRIED_AT_ANNOTATION,
  type Resource,
  STARTED_AT_ANNOTATION,
} from "../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../support/control-plane-harness.ts";
import { seededRandom } from "../support/random.ts";

/**
 * Tests Models under random operations and faults, which BERTH_SIM_SEED reproduces: starts and stops, edits, deletions,
 * kills of Berth and of the assistant, a failing hub, damaged files. After the faults each Model matches its spec, as
 * far as the memory allows, and nothing else is loaded.
 */

const startedAt = ({ metadata }: Resource<"Model">) =>
  metadata.annotations[STARTED_AT_ANNOTATION] ?? "";
const names = ["a", "b", "c", "d"];
const sources: Readonly<Record<string, number>> = {
  "org/one": 300,
  "org/two": 450,
  "org/three": 600,
  "org/four": 950,
};

let harness: ControlPlaneHarness | undefined;
afterEach(async () => {
  await harness?.[Symbol.asyncDispose]();
  harness = undefined;
});

const single = process.env["BERTH_SIM_SEED"];
const runs = single === undefined ? Number(process.env["BERTH_SIM_RUNS"] ?? "30") : 1;
const from = Number(single ?? process.env["BERTH_SIM_FROM"] ?? Date.now() % 1_000_000);

test.each(Array.from({ length: runs }, (_, index) => from + index))(
  "Models converge: BERTH_SIM_SEED=%i",
  async (seed) => {
    const random = seededRandom(seed);
    const pick = <T>(items: readonly T[]): T => {
      const item = items[Math.floor(random() * items.length)];
      if (item === undefined) throw new Error("nothing to pick from");
      return item;
    };
    harness = new ControlPlaneHarness({ random });
    const here = harness;
    const { models } = here;
    let commits = 0;
    for (const [source, memoryBytes] of Object.entries(sources))
      models.repositories.set(source, {
        commit: `${commits++}`.repeat(40),
        bytes: 1_000,
        memoryBytes,
      });
    here.boot();
    const now = () => new Date(here.clock.now()).toISOString();
    const steps: Readonly<Record<string, () => Promise<void> | void>> = {
      create: () => here.applyModel(pick(names), { source: pick(Object.keys(sources)) }),
      start: () => {
        const name = pick(names);
        const source = here.model(name)?.spec.source ?? pick(Object.keys(sources));
        if (here.model(name)?.metadata.deletionTimestamp) return;
        here.applyModel(name, { source, running: true }, { [STARTED_AT_ANNOTATION]: now() });
      },
      stop: () => {
        const model = here.model(pick(names));
        if (model && !model.metadata.deletionTimestamp)
          here.applyModel(model.metadata.name, { source: model.spec.source, running: false });
      },
      retry: () => {
        const model = here.model(pick(names));
        if (model && !model.metadata.deletionTimestamp)
          here.applyModel(model.metadata.name, model.spec, { [RETRIED_AT_ANNOTATION]: now() });
      },
      remove: () => {
        const name = pick(names);
        if (here.model(name))
          here.store.delete("Model", name, { actor: { name: "test" }, manager: "api" });
      },
      kill: async () => {
        await here.kill();
        here.boot();
      },
      assistantDies: () => models.restartAssistant(),
      assistantAway: () => {
        models.isReachable = !models.isReachable;
      },
      hubFails: () => {
        models.resolveErrors.push(new BerthError("hub_unreachable", "no answer"));
      },
      lineCut: () => {
        models.downloadErrors.push(new BerthError("hub_unreachable", "cut"));
      },
      loadFails: () => {
        models.loadErrors.push(new BerthError("engine_error", "it crashed"));
      },
      damage: () => {
        for (const key of models.disk.keys()) if (random() < 0.3) models.damaged.add(key);
      },
    };
    const done: string[] = [];
    for (let step = 0; step < 25; step += 1) {
      const name = pick(Object.keys(steps));
      done.push(name);
      try {
        await steps[name]?.();
      } catch (error) {
        // The store refuses changes of a Model whose deletion has begun.
        if (!(error instanceof BerthError) || error.code !== "conflict") throw error;
      }
      await here.clock.advance(Math.floor(random() * 6_000));
    }
    models.isReachable = true;
    for (const queue of [models.resolveErrors, models.downloadErrors, models.loadErrors])
      queue.length = 0;
    // A load that began before the test has removed the remaining errors may still fail with one of them.
    await here.clock.advance(60_000);
    // Five crashes of the engine in a row end the attempts, as intended; a start by the user begins new attempts.
    for (const { metadata, status, spec } of here.store.list("Model"))
      if (status?.memory.stalled)
        here.applyModel(metadata.name, spec, { [RETRIED_AT_ANNOTATION]: now() });
    await here.clock.advance(15 * 60_000);

    const problems: string[] = [];
    const expects = (holds: boolean, what: string) => {
      if (!holds) problems.push(what);
    };
    const all = here.store.list("Model");
    for (const { metadata, status, spec } of all) {
      const { name } = metadata;
      const phase = status?.phase ?? "none";
      const isResident = models.resident.get(name)?.state === "resident";
      expects(metadata.deletionTimestamp === null, `${name} is still being deleted`);
      expects(phase === "ready" || phase === "running", `${name} is ${phase}`);
      expects(isResident === (phase === "running"), `${name} is ${phase}, resident: ${isResident}`);
      expects(spec.running === true || phase === "ready", `${name} is ${phase}, and not wanted`);
    }
    const wanted = all.filter(({ spec }) => spec.running === true);
    const running = wanted.filter(({ status }) => status?.phase === "running");
    const free =
      models.memoryBytesMax -
      running.reduce((sum, { spec }) => sum + (sources[spec.source] ?? 0), 0);
    for (const id of models.resident.keys())
      expects(
        running.some(({ metadata }) => metadata.name === id),
        `${id} is in memory, and nobody's`,
      );
    for (const { status, spec, metadata } of wanted)
      expects(
        status?.phase === "running" || (sources[spec.source] ?? 0) > free,
        `${metadata.name} is left out, and there is room`,
      );
    const [latest] = wanted.toSorted((one, other) => (startedAt(one) < startedAt(other) ? 1 : -1));
    expects(
      latest === undefined || latest.status?.phase === "running",
      `${latest?.metadata.name} was started last, and does not run`,
    );
    expect({ problems, steps: problems.length > 0 ? done.join(" ") : "" }).toEqual({
      problems: [],
      steps: "",
    });
  },
);
