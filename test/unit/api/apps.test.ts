import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AppSpec } from "../../../src/resources/app-spec.ts";
import { STACK_LABEL } from "../../../src/resources/stack.ts";
import {
  appStatus,
  condition,
  openTestApi,
  putApp,
  readErrorBody,
  type TestApi,
} from "../../support/api-harness.ts";
import { applyResource } from "../../support/test-store.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
});
afterEach(() => api[Symbol.asyncDispose]());

describe("listing apps", () => {
  it("returns all fields of each app, and the number of apps", async () => {
    const { uid } = putApp(api.store, "hello");
    api.store.setStatus("App", "hello", uid, appStatus(1));
    const response = await api.request({ url: "/api/apps" });
    expect(response.statusCode).toBe(200);
    expect(response.headers["content-type"]).toBe("application/json; charset=utf-8");
    expect(response.json()).toEqual({
      apps: [
        {
          id: uid,
          name: "hello",
          stack: null,
          status: "running",
          domain: "hello.example.test",
          domains: ["hello.example.test"],
          image: "bb:1",
          source: null,
          created_at: "2030-01-01T00:00:00.000Z",
          port: 80,
          url: "http://127.0.0.1:20000",
          ready: true,
          generation: 1,
          observed_generation: 1,
          message: "running and healthy",
          managed_by: "api",
        },
      ],
      total: 1,
    });
  });

  it("is also served at the path with a trailing slash", async () => {
    const response = await api.request({ url: "/api/apps/" });
    expect(response.statusCode).toBe(200);
    expect(response.json()).toEqual({ apps: [], total: 0 });
  });

  it("supports paging and filters, and `total` counts every matching app", async () => {
    for (const name of ["a", "b", "c", "d"]) putApp(api.store, name);
    const { uid } = putApp(api.store, "e", { image: "bb:1", running: false });
    api.store.setStatus("App", "e", uid, appStatus(1, { phase: "stopped", conditions: [] }));
    const page = await api.request({ url: "/api/apps?limit=2&offset=1" });
    expect(page.json().apps.map((app: { name: string }) => app.name)).toEqual(["b", "c"]);
    expect(page.json().total).toBe(5);
    const stopped = await api.request({ url: "/api/apps?status=stopped" });
    expect(stopped.json()).toMatchObject({ apps: [{ name: "e" }], total: 1 });
    const beyond = await api.request({ url: "/api/apps?offset=100" });
    expect(beyond.json()).toEqual({ apps: [], total: 5 });
  });

  it("shows every write immediately, although responses are cached", async () => {
    const names = async () =>
      (await api.request({ url: "/api/apps" }))
        .json()
        .apps.map((app: { name: string }) => app.name);
    putApp(api.store, "one");
    expect(await names()).toEqual(["one"]);
    expect(await names()).toEqual(["one"]);
    putApp(api.store, "two");
    expect(await names()).toEqual(["one", "two"]);
  });

  it("never reports Ready for a generation that has not been reconciled", async () => {
    const { uid } = putApp(api.store, "web");
    api.store.setStatus("App", "web", uid, appStatus(1));
    putApp(api.store, "web", { image: "bb:2", port: 80 });
    const { apps } = (await api.request({ url: "/api/apps" })).json();
    expect(apps[0]).toMatchObject({
      ready: false,
      status: "deploying",
      generation: 2,
      observed_generation: 1,
    });
    expect(apps[0].message).toContain("generation 2");
  });

  it("names the file that declares an app", async () => {
    putApp(api.store, "web", { image: "bb:1" }, "file:web.yaml");
    const { apps } = (await api.request({ url: "/api/apps" })).json();
    expect(apps[0].managed_by).toBe("file:web.yaml");
  });
});

describe("creating an app", () => {
  it("returns 201 with the details, and records the actor", async () => {
    const response = await api.request({
      method: "POST",
      url: "/api/apps",
      headers: { "x-request-id": "req-1" },
      payload: {
        name: "web",
        image: "bb:1",
        port: 80,
        domain: "web.example.org",
        env: { A: "b", TOKEN: { secret: "web-token" } },
        replicas: 2,
        labels: { team: "x" },
      },
    });
    expect(response.statusCode).toBe(201);
    expect(response.json()).toMatchObject({
      name: "web",
      domain: "web.example.org",
      status: "pending",
      labels: { team: "x" },
      env: { A: "b", TOKEN: { secret: "web-token" } },
      spec: { image: "bb:1", replicas: 2 },
      conditions: [],
      events: [],
    });
    expect(api.store.get("App", "web")?.spec.port).toBe(80);
    expect(api.store.audit.list({ limit: 1 })[0]).toMatchObject({
      actor: "token:test-admin",
      action: "create",
      kind: "App",
      name: "web",
      requestId: "req-1",
    });
  });

  it("refuses a name that is taken and changes nothing", async () => {
    putApp(api.store, "web");
    const response = await api.request({
      method: "POST",
      url: "/api/apps",
      payload: { name: "web", image: "bb:9" },
    });
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("web");
    expect(api.store.get("App", "web")?.spec.image).toBe("bb:1");
  });

  it("lists all issues, with the nearest known field and without `spec` in the paths", async () => {
    const wrong = await api.request({
      method: "POST",
      url: "/api/apps",
      payload: { name: "web", imag: "x", port: "80" },
    });
    expect(wrong.statusCode).toBe(400);
    expect(readErrorBody(wrong)).toContain('unknown key "imag"; did you mean "image"?');
    expect(readErrorBody(wrong)).toContain("port: expected a whole number");
    const both = await api.request({
      method: "POST",
      url: "/api/apps",
      payload: { name: "web", image: "a", source: { archive: "0".repeat(64) } },
    });
    expect(both.statusCode).toBe(400);
    expect(readErrorBody(both)).not.toContain("spec");
    expect(api.store.list("App")).toEqual([]);
  });

  it("returns the plan with dry_run, and writes nothing", async () => {
    const response = await api.request({
      method: "POST",
      url: "/api/apps?dry_run=true",
      payload: { name: "web", image: "bb:1" },
    });
    expect(response.statusCode).toBe(200);
    expect(response.json()).toMatchObject({
      dry_run: true,
      name: "web",
      changes: [{ path: "/spec/image", after: "bb:1" }],
      plan: { app: "web", operations: [{ operation: "createContainer", target: "web-1" }] },
    });
    expect(api.store.list("App")).toEqual([]);
    expect(api.control.plannedApps).toEqual([{ name: "web", spec: { image: "bb:1" } }]);
  });
});

function containerAs(role: "active" | "candidate" | "draining") {
  return {
    id: role,
    name: role,
    replica: 0,
    generation: 1,
    role,
    state: "running",
    healthy: true,
    exitCode: null,
    startedAt: null,
    image: `built:${role}`,
    imageId: "sha256:1",
    address: null,
  };
}

describe("one app", () => {
  it("shows the image of the containers that serve requests, even if other containers exist", async () => {
    const { uid } = putApp(api.store, "web", { port: 80, source: { archive: "a".repeat(64) } });
    const containers = [containerAs("draining"), containerAs("active")];
    api.store.setStatus("App", "web", uid, appStatus(1, { containers }));
    expect((await api.request({ url: "/api/apps/web" })).json().image).toBe("built:active");
    api.store.setStatus(
      "App",
      "web",
      uid,
      appStatus(1, { containers: [containerAs("candidate")] }),
    );
    expect((await api.request({ url: "/api/apps/web" })).json().image).toBe("built:candidate");
  });

  it("shows details: conditions, containers, revisions, owners and the last events", async () => {
    const { uid } = putApp(api.store, "web");
    api.store.setStatus(
      "App",
      "web",
      uid,
      appStatus(1, {
        conditions: [condition("Ready", "False", 1, { reason: "Waiting", message: "not yet" })],
        containers: [
          {
            id: "c1",
            name: "web-1",
            replica: 1,
            generation: 1,
            role: "active",
            state: "exited",
            healthy: null,
            exitCode: 3,
            startedAt: null,
            image: "bb:1",
            imageId: "sha256:1",
            address: null,
          },
        ],
        restarts: 2,
      }),
    );
    for (let count = 0; count < 25; count += 1) {
      const message = `event ${count}`;
      api.store.events.record({
        kind: "App",
        name: "web",
        type: "Normal",
        reason: "Test",
        message,
      });
    }
    const response = await api.request({ url: "/api/apps/web" });
    const body = response.json();
    expect(response.statusCode).toBe(200);
    expect(body.conditions).toEqual([
      {
        type: "Ready",
        status: "False",
        reason: "Waiting",
        message: "not yet",
        last_transition_time: "2030-01-01T00:00:00.000Z",
        observed_generation: 1,
      },
    ]);
    expect(body.containers[0]).toMatchObject({ id: "c1", exit_code: 3, healthy: null });
    expect(body).toMatchObject({ restarts: 2, revisions: { stable: 1 }, message: "not yet" });
    expect(body.owners["/spec/image"]).toBe("api");
    expect(body.events).toHaveLength(20);
    expect(body.events[0].message).toBe("event 24");
    expect(body).not.toHaveProperty("memory");
  });

  it("that does not exist returns 404 on every route", async () => {
    for (const [method, url, payload] of [
      ["GET", "/api/apps/nope", undefined],
      ["GET", "/api/apps/nope/logs", undefined],
      ["GET", "/api/apps/nope/plan", undefined],
      ["GET", "/api/apps/nope/revisions", undefined],
      ["GET", "/api/apps/nope/builds", undefined],
      ["PATCH", "/api/apps/nope", { port: 1 }],
      ["DELETE", "/api/apps/nope", undefined],
      ["POST", "/api/apps/nope/deploy", { image: "x" }],
      ["POST", "/api/apps/nope/start", undefined],
      ["POST", "/api/apps/nope/stop", undefined],
      ["POST", "/api/apps/nope/restart", undefined],
      ["POST", "/api/apps/nope/retry", undefined],
      ["POST", "/api/apps/nope/rollback", undefined],
    ] as const) {
      const response = await api.request({ method, url, ...(payload ? { payload } : {}) });
      expect([url, response.statusCode]).toEqual([url, 404]);
      expect(readErrorBody(response)).toBe('there is no app "nope"');
    }
  });
});

describe("changing an app", () => {
  it("sets given fields, removes fields that are null, and keeps the others", async () => {
    putApp(api.store, "web", { image: "bb:1", port: 80, env: { A: "1", B: "2" } });
    const response = await api.request({
      method: "PATCH",
      url: "/api/apps/web",
      payload: { port: null, env: { B: null, C: "3" }, labels: { team: "x" } },
    });
    expect(response.statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec).toEqual({ image: "bb:1", env: { A: "1", C: "3" } });
    expect(api.store.get("App", "web")?.metadata.labels).toEqual({ team: "x" });
  });

  it("accepts a merge patch with the content type of merge patches too", async () => {
    putApp(api.store, "web");
    const response = await api.request({
      method: "PATCH",
      url: "/api/apps/web",
      headers: { "content-type": "application/merge-patch+json" },
      payload: JSON.stringify({ replicas: 3 }),
    });
    expect(response.statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec.replicas).toBe(3);
  });

  it("refuses a field that a file owns, naming file and field, unless forced", async () => {
    putApp(api.store, "web", { image: "bb:1", port: 80 }, "file:web.yaml");
    const request = { method: "PATCH", payload: { image: "bb:2" } } as const;
    const refused = await api.request({ ...request, url: "/api/apps/web" });
    expect(refused.statusCode).toBe(409);
    expect(readErrorBody(refused)).toContain("web.yaml");
    expect(readErrorBody(refused)).toContain("image");
    const other = await api.request({
      method: "PATCH",
      url: "/api/apps/web",
      payload: { running: false },
    });
    expect(other.statusCode).toBe(202);
    const forced = await api.request({ ...request, url: "/api/apps/web?force=true" });
    expect(forced.statusCode).toBe(202);
    expect(api.store.get("App", "web")?.spec.image).toBe("bb:2");
  });

  it("refuses changes that would make the app invalid", async () => {
    putApp(api.store, "web");
    const response = await api.request({
      method: "PATCH",
      url: "/api/apps/web",
      payload: { image: null },
    });
    expect(response.statusCode).toBe(400);
    expect(api.store.get("App", "web")?.spec.image).toBe("bb:1");
  });

  it("marks a write that changed nothing with a header", async () => {
    putApp(api.store, "web", { image: "bb:1" });
    const payload = { image: "bb:1" };
    const response = await api.request({ method: "PATCH", url: "/api/apps/web", payload });
    expect(response.statusCode).toBe(202);
    expect(response.headers["x-berth-changed"]).toBe("false");
    expect(api.store.get("App", "web")?.metadata.generation).toBe(1);
  });
});

describe("deleting an app", () => {
  it("marks the app as deleted and wakes its reconciler; volumes are deleted only on request", async () => {
    putApp(api.store, "web");
    const response = await api.request({ method: "DELETE", url: "/api/apps/web" });
    expect(response.statusCode).toBe(202);
    expect(response.json()).toMatchObject({ name: "web", status: "deleting", ready: false });
    const app = api.store.get("App", "web");
    expect(app?.metadata.deletionTimestamp).not.toBeNull();
    expect(app?.metadata.annotations).toEqual({});
    expect(api.control.woken).toContain("App/web");
    await api.request({ method: "DELETE", url: "/api/apps/web?delete_volumes=true" });
    expect(api.store.get("App", "web")?.metadata.annotations).toEqual({
      "berth.dev/volume-policy": "delete",
    });
  });

  it("is refused for an app from a spec file, unless forced", async () => {
    putApp(api.store, "web", { image: "bb:1" }, "file:web.yaml");
    const refused = await api.request({ method: "DELETE", url: "/api/apps/web" });
    expect(refused.statusCode).toBe(409);
    expect(readErrorBody(refused)).toContain("web.yaml");
    const dry = await api.request({ method: "DELETE", url: "/api/apps/web?dry_run=true" });
    expect(dry.statusCode).toBe(409);
    const forced = await api.request({ method: "DELETE", url: "/api/apps/web?force=true" });
    expect(forced.statusCode).toBe(202);
  });

  it("reports volumes and folders with their owner and their other users, and which of them a deletion keeps", async () => {
    const labels = { [STACK_LABEL]: "blog" };
    const spec: AppSpec = {
      image: "web:1",
      volumes: [
        { name: "media", path: "/media", shared: true },
        { name: "media", path: "/static", shared: true },
        { name: "cache", path: "/cache" },
      ],
      folders: [{ name: "config", path: "/config" }],
    };
    applyResource(api.store, "App", "blog-web", spec, { labels });
    applyResource(api.store, "App", "blog-worker", spec, { labels });
    applyResource(api.store, "App", "other", { image: "web:1" });
    const { data } = (await api.request({ url: "/api/apps/blog-web" })).json();
    expect(data).toEqual([
      {
        type: "volume",
        name: "media",
        paths: ["/media", "/static"],
        stack: "blog",
        used_by: ["blog-worker"],
      },
      { type: "volume", name: "cache", paths: ["/cache"], stack: null, used_by: [] },
      { type: "folder", name: "config", paths: ["/config"], stack: null, used_by: [] },
    ]);
    const dryRun = async (name: string) => {
      const url = `/api/apps/${name}?dry_run=true&delete_volumes=true`;
      return (await api.request({ method: "DELETE", url })).json().message;
    };
    const own = "with its 0 containers and delete its";
    expect(await dryRun("blog-web")).toBe(
      `would delete app "blog-web" ${own} 1 named volume and 1 folder, and keep the volume "media", which blog-worker uses too`,
    );
    await api.request({ method: "DELETE", url: "/api/apps/blog-web?delete_volumes=true" });
    expect(await dryRun("blog-worker")).toBe(
      `would delete app "blog-worker" ${own} 2 named volumes and 1 folder`,
    );
  });

  it("reports with dry_run what would be deleted, and deletes nothing", async () => {
    putApp(api.store, "web", { image: "bb:1", volumes: [{ name: "data", path: "/data" }] });
    const keep = await api.request({ method: "DELETE", url: "/api/apps/web?dry_run=true" });
    expect(keep.json().message).toContain("keep its 1 named volume");
    const url = "/api/apps/web?dry_run=true&delete_volumes=true";
    const wipe = await api.request({ method: "DELETE", url });
    expect(wipe.json().message).toContain("delete its 1 named volume");
    expect(api.store.get("App", "web")?.metadata.deletionTimestamp).toBeNull();
  });

  it("refuses every action that could bring back an app that is being deleted", async () => {
    putApp(api.store, "web");
    await api.request({ method: "DELETE", url: "/api/apps/web" });
    for (const verb of ["start", "stop", "restart", "retry"]) {
      const response = await api.request({ method: "POST", url: `/api/apps/web/${verb}` });
      expect([verb, response.statusCode]).toEqual([verb, 409]);
    }
    const payload = { name: "web", image: "bb:1" };
    const again = await api.request({ method: "POST", url: "/api/apps", payload });
    expect(again.statusCode).toBe(409);
    expect(readErrorBody(again)).toContain("being deleted");
  });
});
