import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { assessModel, type ModelWaitTarget } from "../../../src/api/models/wait-for-model.ts";
import { emptyModelReconcileState, type ModelStatus } from "../../../src/resources/model-status.ts";
import { condition, openTestApi, readErrorBody, type TestApi } from "../../support/api-harness.ts";
import {
  absentStatus,
  failedStatus,
  finishModelDeletion,
  modelStatus,
  putModel,
  requireModel,
  runningStatus,
  setModelStatus,
} from "../../support/model-fixtures.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
});
afterEach(() => api[Symbol.asyncDispose]());

const post = (path: string, payload?: object) =>
  api.request({ method: "POST", url: `/api/llm/${path}`, ...(payload ? { payload } : {}) });
const there = (name: string) => expect.poll(() => api.store.get("Model", name)).toBeDefined();
const setStatus = (name: string, status: (generation: number) => ModelStatus) =>
  setModelStatus(api.store, name, status);

const noRoom = (generation: number) =>
  modelStatus(generation, {
    conditions: [
      condition("Ready", "False", generation, {
        reason: "InsufficientMemory",
        message: "3 GiB are missing",
      }),
      condition("Downloaded", "True", generation),
    ],
  });

const ofBefore = (generation: number) => ({
  ...modelStatus(generation),
  conditions: [condition("Downloaded", "True", generation - 1)],
});

const outcome = (
  status: ((generation: number) => ModelStatus) | null,
  until: ModelWaitTarget["until"],
  options: { running?: boolean; isOff?: boolean } = {},
) => {
  const { running } = options;
  const spec = { source: "org/x", ...(running === undefined ? {} : { running }) };
  const { metadata } = putModel(api.store, "x", spec);
  const model = {
    ...requireModel(api.store, "x"),
    status: status?.(metadata.generation) ?? null,
  };
  const { name, uid, generation } = metadata;
  const target = { name, uid, generation, until };
  return assessModel(model, target, options.isOff ?? false)?.type;
};

const settled = async (request: Promise<unknown>) => {
  let isDone = false;
  void request.finally(() => {
    isDone = true;
  });
  await api.clock.settle();
  return isDone;
};

const checked = (refresh: "resolve" | "verify" | null) => (generation: number) =>
  modelStatus(generation, { memory: { ...emptyModelReconcileState, refresh } });

const failed = (generation: number) => failedStatus(generation, "SourceDenied", "gated");

const refused = (generation: number) =>
  absentStatus(generation, "absent", [condition("Accepted", "False", generation)]);

const retried = (generation: number) => ({
  ...absentStatus(generation, "failed", [
    condition("Ready", "False", generation, { reason: "SourceUnreachable" }),
  ]),
  nextRetryAt: "2030-01-01T00:01:00.000Z",
});

describe("the outcome of a write", () => {
  it("is pending until the generation has been reconciled and the model has reached the target state", () => {
    expect(outcome(null, "downloaded")).toBeUndefined();
    expect(outcome((generation) => modelStatus(generation - 1), "downloaded")).toBeUndefined();
    expect(outcome(ofBefore, "downloaded")).toBeUndefined();
    expect(outcome(modelStatus, "downloaded")).toBe("done");
    expect(outcome(modelStatus, "running", { running: true })).toBeUndefined();
    expect(outcome(runningStatus, "running", { running: true })).toBe("done");
    expect(outcome(runningStatus, "downloaded", { running: true })).toBe("done");
    expect(outcome(runningStatus, "stopped")).toBeUndefined();
    expect(outcome(modelStatus, "stopped")).toBe("done");
    expect(outcome(modelStatus, "settled")).toBe("done");
    expect(outcome(modelStatus, "settled", { running: true })).toBeUndefined();
    expect(outcome(runningStatus, "settled", { running: true })).toBe("done");
  });

  it("waits for the verification that the request asked for", () => {
    expect(outcome(checked("resolve"), "downloaded")).toBeUndefined();
    expect(outcome(checked("verify"), "downloaded")).toBeUndefined();
    expect(outcome(checked(null), "downloaded")).toBe("done");
  });

  it("is a failure if the model needs an action of the user or more memory", () => {
    expect(outcome(failed, "downloaded")).toBe("failed");
    expect(outcome(failed, "running", { running: true })).toBe("failed");
    expect(outcome(failed, "stopped")).toBe("done");
    expect(outcome(refused, "downloaded")).toBe("failed");
    expect(outcome(noRoom, "running", { running: true })).toBe("failed");
    expect(outcome(noRoom, "downloaded", { running: true })).toBe("done");
    expect(outcome(modelStatus, "running", { running: false })).toBe("failed");
    expect(outcome(modelStatus, "running", { running: true, isOff: true })).toBe("failed");
    expect(outcome(retried, "downloaded", { isOff: true })).toBeUndefined();
  });
});

describe("?wait=true", () => {
  it("responds to a download when the model is on the disk", async () => {
    const request = post("models/org%2Fsmall/download?wait=true");
    await there("small");
    setStatus("small", (generation) => absentStatus(generation, "downloading", []));
    expect(await settled(request)).toBe(false);
    setStatus("small", modelStatus);
    const response = await request;
    expect(response.statusCode).toBe(200);
    expect(response.json()).toMatchObject({ status: "ready", progress: 1 });
  });

  it("responds to a start when the model runs, and to a stop when it is unloaded", async () => {
    const started = post("start?wait=true", { model: "org/small" });
    await there("small");
    setStatus("small", modelStatus);
    expect(await settled(started)).toBe(false);
    setStatus("small", runningStatus);
    expect((await started).json()).toMatchObject({ status: "running", running: true });
    const stopped = post("stop?wait=true");
    await expect.poll(() => requireModel(api.store, "small").spec.running).toBe(false);
    expect(await settled(stopped)).toBe(false);
    setStatus("small", modelStatus);
    const response = await stopped;
    expect(response.statusCode).toBe(200);
    expect(response.json()).toMatchObject({ total: 1, models: [{ status: "ready" }] });
  });

  it.each([
    ["SourceNotFound", 404],
    ["SourceDenied", 409],
    ["DigestMismatch", 409],
    ["ModelUnusable", 409],
    ["DiskFull", 503],
  ])("responds to the failure %s with %i and the reason", async (reason, status) => {
    const request = post("models/org%2Fsmall/download?wait=true");
    await there("small");
    setStatus("small", (generation) => failedStatus(generation, reason, "because of this"));
    const response = await request;
    expect(response.statusCode).toBe(status);
    expect(readErrorBody(response)).toBe(
      'model "small" has failed: because of this. See GET /api/llm/models/small.',
    );
  });

  it("returns 503 immediately for a full disk, although Berth retries, and 409 for too little memory", async () => {
    const download = post("models/org%2Fsmall/download?wait=true");
    await there("small");
    setStatus("small", (generation) =>
      absentStatus(generation, "absent", [
        condition("Ready", "False", generation, { reason: "DiskFull", message: "1 GiB short" }),
      ]),
    );
    expect((await download).statusCode).toBe(503);
    const start = post("start?wait=true", { model: "small" });
    await expect.poll(() => requireModel(api.store, "small").spec.running).toBe(true);
    setStatus("small", noRoom);
    const response = await start;
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("3 GiB are missing");
    await api.clock.advance(1);
    api.control.assistantReport = { ...api.control.assistantReport, state: "off" };
    const off = post("start?wait=true", { model: "small" });
    await expect.poll(() => requireModel(api.store, "small").metadata.generation).toBe(3);
    setStatus("small", modelStatus);
    expect((await off).statusCode).toBe(503);
  });

  it("returns 202 with the header `x-berth-wait: timed-out` after the timeout", async () => {
    const request = post("models/org%2Fsmall/download?wait=true&timeout=3s");
    await there("small");
    await api.clock.advance(2_999);
    expect(await settled(request)).toBe(false);
    await api.clock.advance(1);
    const response = await request;
    expect([response.statusCode, response.headers["x-berth-wait"]]).toEqual([202, "timed-out"]);
    expect((await post("models/small/download?wait=true&timeout=9m")).statusCode).toBe(400);
  });

  it("returns 409 if the model is deleted in the meantime", async () => {
    const request = post("models/org%2Fsmall/download?wait=true");
    await there("small");
    api.store.delete("Model", "small", { actor: { name: "user:admin" }, manager: "api" });
    finishModelDeletion(api.store, "small");
    const response = await request;
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("was deleted");
  });

  it("also delays the response to a GET and to a deletion", async () => {
    putModel(api.store, "small");
    const waiting = api.request({ url: "/api/llm/models/small?wait=true" });
    const gone = api.request({ url: "/api/llm/models/small?wait=deleted" });
    expect(await settled(waiting)).toBe(false);
    setStatus("small", modelStatus);
    expect((await waiting).statusCode).toBe(200);
    const request = api.request({ method: "DELETE", url: "/api/llm/models/small?wait=true" });
    await expect
      .poll(() => api.store.get("Model", "small")?.metadata.deletionTimestamp)
      .not.toBeNull();
    expect(await settled(request)).toBe(false);
    finishModelDeletion(api.store, "small");
    const response = await request;
    expect(response.statusCode).toBe(200);
    expect(response.json()).toMatchObject({ name: "small", message: "deleted", running: false });
    expect((await gone).statusCode).toBe(404);
  });

  it("responds immediately if the model has already reached the state", async () => {
    putModel(api.store, "small", { source: "org/small", running: true });
    setStatus("small", runningStatus);
    expect((await post("start?wait=true", { model: "small" })).statusCode).toBe(200);
    putModel(api.store, "idle");
    setStatus("idle", modelStatus);
    expect((await post("stop?wait=true", { model: "idle" })).statusCode).toBe(200);
  });
});
