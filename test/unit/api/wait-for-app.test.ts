import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { assessApp } from "../../../src/api/wait-for-app.ts";
import type { AppStatus } from "../../../src/resources/app-status.ts";
import {
  appStatus,
  condition,
  openTestApi,
  putApp,
  readErrorBody,
  type TestApi,
} from "../../support/api-harness.ts";
import { appResource } from "../../support/app-resource.ts";

const unready = (generation: number, reason: string) =>
  condition("Ready", "False", generation, { reason, message: `it is ${reason}` });

describe("the outcome of a write", () => {
  const target = { name: "web", uid: "uid-web", generation: 2, until: "ready" } as const;
  const at = (status: AppStatus | null, spec = {}) =>
    assessApp({ ...appResource("web", { image: "bb:1", ...spec }), status }, target);

  it("is pending until the reconciler has processed the written generation or a newer one", () => {
    expect(at(null)).toBeUndefined();
    expect(at(appStatus(1))).toBeUndefined();
    expect(at(appStatus(2, { conditions: [condition("Ready", "True", 1)] }))).toBeUndefined();
    expect(at(appStatus(2))).toEqual({ type: "ready" });
    expect(at(appStatus(3))).toEqual({ type: "ready" });
    expect(at(appStatus(2, { phase: "deploying", conditions: [unready(2, "Deploying")] }))).toBe(
      undefined,
    );
  });

  it("is a failure with the condition's message if the app is Stalled, reverted or failed", () => {
    const stalled = condition("Stalled", "True", 2, { message: "no such image" });
    const conditions = [unready(2, "Failed"), stalled];
    expect(at(appStatus(2, { phase: "degraded", conditions }))).toEqual({
      type: "failed",
      message: "no such image",
    });
    const reverted = appStatus(2, { phase: "degraded", conditions: [unready(2, "Reverted")] });
    expect(at(reverted)).toEqual({ type: "failed", message: "it is Reverted" });
    const failed = appStatus(2, { phase: "failed", conditions: [unready(2, "DriftLoop")] });
    expect(at(failed)).toEqual({ type: "failed", message: "it is DriftLoop" });
    const old = condition("Stalled", "True", 1, { message: "of before" });
    expect(at(appStatus(2, { phase: "deploying", conditions: [old] }))).toBeUndefined();
  });

  it("is success if the app is stopped or suspended as desired", () => {
    const stopped = appStatus(2, { phase: "stopped", conditions: [unready(2, "Stopped")] });
    expect(at(stopped, { running: false })).toEqual({ type: "ready" });
    expect(at(stopped)).toBeUndefined();
    const suspended = appStatus(2, { conditions: [unready(2, "Suspended")] });
    expect(at(suspended, { suspend: true })).toEqual({ type: "ready" });
  });

  it('is "deleted" if the app no longer exists, or if a new app has its name', () => {
    expect(assessApp(undefined, target)).toEqual({ type: "deleted" });
    expect(assessApp(appResource("web", {}, { uid: "other" }), target)).toEqual({
      type: "deleted",
    });
    const going = appResource("web", {}, { deletionTimestamp: "2030-01-01T00:00:00.000Z" });
    expect(assessApp({ ...going, status: appStatus(2) }, target)).toBeUndefined();
  });
});

describe("?wait=true", () => {
  let api: TestApi;
  beforeEach(async () => {
    api = await openTestApi();
  });
  afterEach(() => api[Symbol.asyncDispose]());

  const started = async (request: Promise<{ statusCode: number }>) => {
    let isDone = false;
    void request.finally(() => {
      isDone = true;
    });
    await api.clock.settle();
    return () => isDone;
  };

  it("returns 201 for a new app when it is Ready", async () => {
    const payload = { name: "web", image: "bb:1" };
    const request = api.request({ method: "POST", url: "/api/apps?wait=true", payload });
    const isDone = await started(request);
    await expect.poll(() => api.store.get("App", "web")).toBeDefined();
    expect(isDone()).toBe(false);
    const uid = api.store.get("App", "web")?.metadata.uid ?? "";
    api.store.setStatus("App", "web", uid, appStatus(1));
    const response = await request;
    expect(response.statusCode).toBe(201);
    expect(response.json()).toMatchObject({ ready: true, status: "running" });
    expect(response.headers["x-berth-wait"]).toBeUndefined();
  });

  it("returns 200 when the generation that the action created is Ready, even if an older one was Ready before", async () => {
    const { uid } = putApp(api.store, "web");
    api.store.setStatus("App", "web", uid, appStatus(1));
    const request = api.request({ method: "POST", url: "/api/apps/web/restart?wait=true" });
    await expect.poll(() => api.store.get("App", "web")?.metadata.generation).toBe(2);
    const isDone = await started(request);
    expect(isDone()).toBe(false);
    api.store.setStatus("App", "web", uid, appStatus(2));
    expect((await request).statusCode).toBe(200);
  });

  it("returns 409 with the reason if the app fails", async () => {
    const { uid } = putApp(api.store, "web");
    const payload = { image: "bb:nope" };
    const request = api.request({ method: "POST", url: "/api/apps/web/deploy?wait=true", payload });
    await expect.poll(() => api.store.get("App", "web")?.metadata.generation).toBe(2);
    const conditions = [
      condition("Ready", "False", 2),
      condition("Stalled", "True", 2, { message: "there is no image bb:nope" }),
    ];
    api.store.setStatus("App", "web", uid, appStatus(2, { phase: "failed", conditions }));
    const response = await request;
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("there is no image bb:nope");
  });

  it("returns 202 with the header `x-berth-wait: timed-out` after the timeout", async () => {
    putApp(api.store, "web");
    const request = api.request({ method: "POST", url: "/api/apps/web/stop?wait=true&timeout=3s" });
    await expect.poll(() => api.store.get("App", "web")?.metadata.generation).toBe(2);
    await api.clock.advance(2_999);
    const isDone = await started(request);
    expect(isDone()).toBe(false);
    await api.clock.advance(1);
    const response = await request;
    expect(response.statusCode).toBe(202);
    expect(response.headers["x-berth-wait"]).toBe("timed-out");
    expect(response.json()).toMatchObject({ name: "web" });
  });

  it("waits for a deletion until the app is gone", async () => {
    putApp(api.store, "web");
    const request = api.request({ method: "DELETE", url: "/api/apps/web?wait=true" });
    await expect.poll(() => api.store.get("App", "web")?.metadata.deletionTimestamp).not.toBeNull();
    api.store.removeFinalizer("App", "web", "berth.dev/containers");
    const response = await request;
    expect(response.statusCode).toBe(200);
    expect(response.json()).toMatchObject({ name: "web", message: "deleted" });
  });

  it("on GET of an app waits for the newest generation, for a given generation, or for the deletion", async () => {
    const { uid } = putApp(api.store, "web");
    const waiting = api.request({ url: "/api/apps/web?wait=true" });
    const gone = api.request({ url: "/api/apps/web?wait=deleted" });
    const isDone = await started(waiting);
    expect(isDone()).toBe(false);
    api.store.setStatus("App", "web", uid, appStatus(1));
    expect((await waiting).statusCode).toBe(200);
    expect((await api.request({ url: "/api/apps/web?wait=true&generation=1" })).statusCode).toBe(
      200,
    );
    api.store.delete("App", "web", { actor: { name: "user:admin" }, manager: "api" });
    api.store.removeFinalizer("App", "web", "berth.dev/containers");
    expect((await gone).statusCode).toBe(404);
  });

  it("returns 409 if the app is deleted in the meantime", async () => {
    putApp(api.store, "web");
    const request = api.request({ url: "/api/apps/web?wait=true" });
    await started(request);
    api.store.delete("App", "web", { actor: { name: "user:admin" }, manager: "api" });
    api.store.removeFinalizer("App", "web", "berth.dev/containers");
    const response = await request;
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("was deleted");
  });

  it("refuses a timeout that is not a duration, or is longer than clients wait", async () => {
    putApp(api.store, "web");
    for (const timeout of ["soon", "-1s", "5m", "1000d", ""]) {
      const url = `/api/apps/web/stop?wait=true&timeout=${timeout}`;
      const response = await api.request({ method: "POST", url });
      expect([timeout, response.statusCode]).toEqual([timeout, 400]);
    }
    expect(api.store.get("App", "web")?.spec.running).toBeUndefined();
  });

  it("does not delay the shutdown of the server", async () => {
    putApp(api.store, "web");
    const request = api.request({ url: "/api/apps/web?wait=true" });
    await started(request);
    await api.server.close();
    const response = await request;
    expect(response.statusCode).toBe(202);
    expect(response.headers["x-berth-wait"]).toBe("timed-out");
  });
});
