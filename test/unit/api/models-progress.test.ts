import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient } from "../../../src/client/rest/client.ts";
import type { ModelProgressView, ModelView } from "../../../src/resources/wire/models.ts";
import { openTestApi, readErrorBody, type TestApi } from "../../support/api-harness.ts";
import {
  absentStatus,
  assistantModel,
  failedStatus,
  finishModelDeletion,
  modelStatus,
  putModel,
  setModelStatus,
} from "../../support/model-fixtures.ts";

let api: TestApi;
let base: string;
beforeEach(async () => {
  api = await openTestApi();
  base = await api.listen();
});
afterEach(() => api[Symbol.asyncDispose]());

const openStreams = async () =>
  Number(/^berth_http_streams_open (\d+)$/m.exec(await api.metrics.metrics())?.[1]);

const downloading = (generation: number) => absentStatus(generation, "downloading", []);

const setProgress = (doneBytes: number) =>
  api.control.progress.set("small", {
    step: "downloading",
    doneBytes,
    totalBytes: 4000,
    bytesPerSecond: 100,
  });

/** Reads the progress stream of a model and records all of its events. */
function follow(id: string) {
  const client = createClient({ baseUrl: base, token: api.token("read") });
  const stop = new AbortController();
  const events: ModelProgressView[] = [];
  const ended = (async (): Promise<ModelView | undefined> => {
    const stream = client.models.progress(id, { signal: stop.signal });
    for (;;) {
      const next = await stream.next();
      if (next.done === true) return next.value;
      events.push(next.value);
    }
  })();
  return { events, ended, stop: () => stop.abort() };
}

describe("the progress of a model", () => {
  it("is sent at most four times a second while it changes, and ends when the model is ready", async () => {
    putModel(api.store, "small");
    const reader = follow("org/small");
    await expect.poll(() => reader.events.length).toBe(1);
    expect(reader.events[0]).toMatchObject({ name: "small", status: "absent", step: null });
    setModelStatus(api.store, "small", downloading);
    for (let step = 1; step <= 20; step += 1) {
      setProgress(step * 100);
      await api.clock.advance(50);
    }
    await expect.poll(() => reader.events.length).toBe(5);
    expect(reader.events.slice(1).map((event) => event.downloaded_bytes)).toEqual([
      500, 1000, 1500, 2000,
    ]);
    expect(reader.events[4]).toMatchObject({
      status: "downloading",
      step: "downloading",
      size_bytes: 4000,
      progress: 0.5,
      bytes_per_second: 100,
    });
    // The server sends nothing while the model does not change.
    await api.clock.advance(2000);
    api.control.progress.clear();
    setModelStatus(api.store, "small", modelStatus);
    await api.clock.advance(250);
    expect(await reader.ended).toMatchObject({ name: "small", status: "ready", progress: 1 });
    expect(reader.events.slice(5)).toMatchObject([{ status: "ready", downloaded_bytes: 4000 }]);
    await expect.poll(openStreams).toBe(0);
  });

  it("ends immediately for settled models: failed, not started, or without a Model resource", async () => {
    putModel(api.store, "bad");
    setModelStatus(api.store, "bad", (generation) =>
      failedStatus(generation, "SourceDenied", "it is gated"),
    );
    const bad = follow("bad");
    expect(await bad.ended).toMatchObject({ status: "failed", error: "it is gated" });
    expect(bad.events).toMatchObject([{ status: "failed", error: "it is gated" }]);
    api.control.assistantModels = [assistantModel("mine")];
    expect(await follow("mine").ended).toMatchObject({ origin: "assistant", status: "ready" });
  });

  it("continues while a load is pending", async () => {
    putModel(api.store, "small", { source: "org/small", running: true });
    setModelStatus(api.store, "small", modelStatus);
    const reader = follow("small");
    await expect.poll(() => reader.events.length).toBe(1);
    await api.clock.advance(1000);
    expect(await openStreams()).toBe(1);
    const failure = reader.ended.catch((error: unknown) => error);
    reader.stop();
    expect(await failure).toMatchObject({ name: "AbortError" });
    await expect.poll(openStreams).toBe(0);
  });

  it("ends with an error if the model is deleted, and without an event if the server closes", async () => {
    putModel(api.store, "small");
    const reader = follow("small");
    await expect.poll(() => reader.events.length).toBe(1);
    const failure = reader.ended.catch((error: unknown) => error);
    api.store.delete("Model", "small", { actor: { name: "user:admin" }, manager: "api" });
    finishModelDeletion(api.store, "small");
    await api.clock.advance(250);
    expect(await failure).toMatchObject({ message: 'model "small" was deleted' });
    putModel(api.store, "other");
    const other = follow("other");
    await expect.poll(() => other.events.length).toBe(1);
    await api.server.close();
    expect(await other.ended).toBeUndefined();
  });

  it("returns 404 without a stream for an unknown model", async () => {
    for (const id of ["nobody", "org%2Fnew"]) {
      const response = await api.request({ url: `/api/llm/models/${id}/progress` });
      expect([response.statusCode, readErrorBody(response)]).toEqual([404, expect.any(String)]);
    }
    expect(await openStreams()).toBe(0);
  });
});

describe("the REST client", () => {
  it("downloads, starts, plans, lists, stops, awaits and deletes models", async () => {
    const { models } = createClient({ baseUrl: base, token: api.token("write") });
    const created = await models.download("org/small");
    expect(created).toMatchObject({ dryRun: false, accepted: true, model: { name: "small" } });
    expect(await models.download("org/small")).toMatchObject({ accepted: false });
    expect(await models.start("small", { dryRun: true })).toMatchObject({
      dryRun: true,
      report: { name: "small", plan: { model: "small" } },
    });
    expect(await models.start("small")).toMatchObject({ accepted: true });
    expect(await models.plan("org/small")).toMatchObject({ model: "small" });
    expect(await models.list({ status: "absent", limit: 5 })).toMatchObject({ total: 1 });
    expect(await models.get("org/small")).toMatchObject({ spec: { running: true } });
    expect(await models.stop(undefined, { dryRun: true })).toMatchObject({
      report: { reports: [{ name: "small" }] },
    });
    expect(await models.stop()).toMatchObject({ accepted: true, models: [{ name: "small" }] });
    expect(await models.stop()).toMatchObject({ accepted: false, models: [] });
    setModelStatus(api.store, "small", modelStatus);
    expect(await models.waitReady("small", { timeoutMs: 5000 })).toMatchObject({
      timedOut: false,
      model: { status: "ready" },
    });
    expect(await models.delete("small", { files: true })).toMatchObject({
      model: { status: "deleting" },
    });
  });
});
