import { beforeEach, expect, test } from "vitest";
import { raceWithAbort } from "../../../../src/base/race-with-abort.ts";
import { TaskGroup } from "../../../../src/base/task-group.ts";
import {
  type JobRequest,
  type JobStep,
  ModelJobs,
} from "../../../../src/controller/models/model-jobs.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

type Report = Parameters<JobRequest["run"]>[0];

/** A job that the test completes. */
class TestJob {
  readonly request: JobRequest;
  report: Report = () => {};
  runs = 0;
  isAborted = false;
  end: () => void = () => {};
  fail: (error: Error) => void = () => {};

  constructor(step: Exclude<JobStep, "resolve" | "inspect">, key = "key") {
    this.request = {
      step,
      key,
      run: async (onProgress, signal) => {
        this.runs += 1;
        this.report = onProgress;
        const ended = new Promise<void>((resolve, reject) => {
          this.end = resolve;
          this.fail = reject;
        });
        signal.addEventListener("abort", () => (this.isAborted = true));
        await raceWithAbort(ended, signal);
        return { step };
      },
    };
  }
}

let tasks: TaskGroup;
let jobs: ModelJobs;
let clock: VirtualClock;
let changed: string[];

beforeEach(() => {
  changed = [];
  clock = new VirtualClock();
  tasks = new TaskGroup((error) => {
    throw error;
  });
  jobs = new ModelJobs({
    clock,
    tasks,
    onChanged: (model) => changed.push(model),
  });
  return () => tasks[Symbol.asyncDispose]();
});

const ensure = (model: string, { request }: TestJob) => jobs.ensure(model, request).type;
const stateOf = (model: string) => jobs.current(model)?.state.type;
const untilChanged = (times: number) =>
  expect.poll(() => changed.length, { interval: 1 }).toBeGreaterThanOrEqual(times);

test("for a step and key of a model, ensure() starts no second job until the result of the first one is cleared", async () => {
  const job = new TestJob("load");
  expect(ensure("a", job)).toBe("running");
  expect(ensure("a", job)).toBe("running");
  jobs.clearResult("a");
  expect(stateOf("a")).toBe("running");
  job.end();
  await untilChanged(1);
  expect(ensure("a", job)).toBe("done");
  expect(job.runs).toBe(1);
  jobs.clearResult("a");
  expect(stateOf("a")).toBeUndefined();
  expect(ensure("a", job)).toBe("running");
  expect(job.runs).toBe(2);
});

test("the failure of a model job is kept until it is cleared", async () => {
  const job = new TestJob("load");
  ensure("a", job);
  job.fail(new Error("no"));
  await untilChanged(1);
  expect(jobs.current("a")?.state).toMatchObject({ type: "failed", error: { message: "no" } });
  jobs.clearResult("a");
  expect(stateOf("a")).toBeUndefined();
});

test.each([
  ["step", new TestJob("unload", "key")],
  ["key", new TestJob("load", "other key")],
])("a job with another %s first cancels the running job of the same model", async (_, next) => {
  const first = new TestJob("load", "key");
  ensure("a", first);
  expect(ensure("a", next)).toBe("waiting");
  expect(first.isAborted).toBe(true);
  expect(next.runs).toBe(0);
  await untilChanged(1);
  expect(stateOf("a")).toBeUndefined();
  expect(ensure("a", next)).toBe("running");
});

test("a job that completes after its cancellation has no result", async () => {
  const stubborn = new TestJob("load");
  jobs.ensure("a", {
    ...stubborn.request,
    run: async (report, signal) => {
      const ignored = new AbortController().signal;
      signal.addEventListener("abort", () => stubborn.end());
      return stubborn.request.run(report, ignored);
    },
  });
  jobs.cancel("a");
  await untilChanged(1);
  expect(stateOf("a")).toBeUndefined();
});

test("with two downloads running, a third waits, and onChanged is called when it starts; other steps do not wait", async () => {
  const [one, two, three] = [
    new TestJob("download"),
    new TestJob("download"),
    new TestJob("download"),
  ];
  expect(ensure("a", one)).toBe("running");
  expect(ensure("b", two)).toBe("running");
  expect(ensure("c", three)).toBe("waiting");
  expect(ensure("d", new TestJob("load"))).toBe("running");
  expect(changed).toEqual([]);
  one.end();
  await untilChanged(2);
  expect(changed).toEqual(["a", "c"]);
  expect(stateOf("c")).toBe("running");
});

test("a queued download that is cancelled never starts", async () => {
  const [one, two, three] = [
    new TestJob("download"),
    new TestJob("download"),
    new TestJob("download"),
  ];
  ensure("a", one);
  ensure("b", two);
  ensure("c", three);
  jobs.cancel("c");
  expect(stateOf("c")).toBeUndefined();
  one.end();
  two.end();
  await untilChanged(2);
  expect(three.runs).toBe(0);
});

test("a failed download lets the next one start", async () => {
  const handles = ["a", "b", "c", "d"].map((model) => ({ model, job: new TestJob("download") }));
  for (const { model, job } of handles) ensure(model, job);
  handles[0]?.job.fail(new Error("cut"));
  handles[1]?.job.fail(new Error("cut"));
  await expect.poll(() => [stateOf("c"), stateOf("d")]).toEqual(["running", "running"]);
});

test("progress that a job reports after its end does not change the state of the job", async () => {
  const job = new TestJob("download");
  ensure("a", job);
  job.report({ step: "downloading", doneBytes: 1, totalBytes: 2 });
  expect(jobs.current("a")?.state).toMatchObject({
    progress: { doneBytes: 1 },
    bytesPerSecond: null,
  });
  await clock.advance(2_000);
  job.report({ step: "downloading", doneBytes: 2_001, totalBytes: 9_000 });
  expect(jobs.current("a")?.state).toMatchObject({ bytesPerSecond: 1_000 });
  job.end();
  await untilChanged(1);
  job.report({ step: "downloading", doneBytes: 2, totalBytes: 2 });
  expect(stateOf("a")).toBe("done");
});

test("a shutdown cancels all model jobs and starts no more", async () => {
  const [one, two, three] = [
    new TestJob("download"),
    new TestJob("download"),
    new TestJob("download"),
  ];
  ensure("a", one);
  ensure("b", two);
  ensure("c", three);
  await tasks[Symbol.asyncDispose]();
  expect([one.isAborted, two.isAborted, three.runs]).toEqual([true, true, 0]);
});
