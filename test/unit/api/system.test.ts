import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { appStatus, openTestApi, putApp, type TestApi } from "../../support/api-harness.ts";
import { putModel, runningStatus, setModelStatus } from "../../support/model-fixtures.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
});
afterEach(() => api[Symbol.asyncDispose]());

describe("GET /api/health", () => {
  it("is ok with an engine and degraded without one, and is returned with 200 and without a token", async () => {
    await api.clock.advance(61_500);
    const good = await api.server.inject({ url: "/api/health" });
    expect(good.json()).toEqual({
      status: "ok",
      runtime: "connected",
      version: "1.2.3",
      uptime_seconds: 61,
    });
    api.control.engineState = { connected: false, message: "connection refused" };
    const bad = await api.server.inject({ url: "/api/health" });
    expect(bad.statusCode).toBe(200);
    expect(bad.json()).toMatchObject({ status: "degraded", runtime: "disconnected" });
  });
});

describe("a server that shares its engine with another Berth of the same identity", () => {
  const otherWriter = { host: "one", dataDir: "/srv/one", since: "2030-01-01T00:00:00.000Z" };

  beforeEach(() => {
    const engine = api.control.engineState;
    if (engine.connected) api.control.engineState = { ...engine, otherWriter };
  });

  it("has the status degraded, and hides the data directory of the other Berth from callers without a token", async () => {
    const { body } = await api.server.inject({ url: "/api/health" });
    expect(JSON.parse(body)).toMatchObject({
      status: "degraded",
      runtime: "connected",
      message: expect.stringContaining("another Berth with the same identity"),
    });
    expect(body).not.toContain("/srv/one");
  });

  it("shows host, data directory and start time of the other Berth to callers with a token", async () => {
    const info = (await api.request({ url: "/api/system/info" })).json();
    expect(info.engine).toMatchObject({
      connected: true,
      other_writer: { host: "one", data_dir: "/srv/one", since: otherWriter.since },
    });
  });
});

describe("the system API of the server", () => {
  it("shows the machine, the engine and the counts of resources", async () => {
    const { uid } = putApp(api.store, "web");
    putApp(api.store, "two");
    api.store.setStatus("App", "web", uid, appStatus(1));
    putModel(api.store, "small", { source: "org/small", running: true });
    putModel(api.store, "idle");
    setModelStatus(api.store, "small", runningStatus);
    const info = (await api.request({ url: "/api/system/info" })).json();
    expect(info).toMatchObject({
      version: "1.2.3",
      instance_id: api.store.instanceId,
      engine: { connected: true, version: "1.0", api_version: "1.41", message: null },
      counts: { apps: 2, apps_ready: 1, models: 2, models_ready: 1, models_running: 1 },
      assistant: { state: "up", url: "http://127.0.0.1:7777", pid: 42, starts: 1, message: null },
      companion: {
        state: "no_bus",
        url: null,
        pid: null,
        starts: 0,
        message: "no session bus is in the environment",
      },
    });
    expect(info.disk.total_bytes).toBeGreaterThan(0);
    expect(info.ingress).toEqual({
      mode: "off",
      ready: false,
      version: null,
      message: "is off",
      http_port: null,
      https_port: null,
      api_url: null,
      api_problem: null,
    });
    api.ingress.mode = "process";
    api.ingress.state = () => ({ ready: true, version: "2.6.2", message: "Caddy 2.6.2" });
    api.ingress.api = () => ({ url: "https://berth.test", problem: "no certificate" });
    const routed = (await api.request({ url: "/api/system/info" })).json();
    expect(routed.ingress).toMatchObject({
      mode: "process",
      ready: true,
      version: "2.6.2",
      http_port: 8080,
      https_port: null,
      api_url: "https://berth.test",
      api_problem: "no certificate",
    });
    api.control.engineState = { connected: false, message: "connection refused" };
    const away = (await api.request({ url: "/api/system/info" })).json();
    expect(away.engine).toMatchObject({ connected: false, message: "connection refused" });
  });

  it("shows the server's configuration with secrets redacted", async () => {
    expect((await api.request({ url: "/api/system/config" })).json()).toEqual({
      config: [
        { key: "listen", value: "127.0.0.1:0", source: "flag", origin: "--listen" },
        { key: "password", value: "(secret)", source: "environment", origin: "BERTH_PASSWORD" },
      ],
    });
  });
});

describe("the specs folder", () => {
  it("is reported, and waiting deletions are confirmed only with `confirm: true`", async () => {
    const waiting = { kind: "App", name: "web", file: "web.yaml" } as const;
    api.control.specsReport = {
      folder: "/srv/specs",
      state: "watching",
      message: null,
      files: [
        {
          file: "bad.yaml",
          state: "invalid",
          contentHash: "abc",
          resources: [{ kind: "App", name: "bad", yielded: ["/spec/image"] }],
          errors: [{ line: 3, column: 5, message: "unknown key" }],
          time: "2030-01-01T00:00:00.000Z",
        },
      ],
      pendingPrune: [waiting],
    };
    const specs = (await api.request({ url: "/api/specs" })).json();
    expect(specs).toMatchObject({
      folder: "/srv/specs",
      files: [{ content_hash: "abc", errors: [{ line: 3, column: 5 }] }],
      pending_prune: [waiting],
    });
    const prune = (payload: object) =>
      api.request({ method: "POST", url: "/api/specs/prune", payload });
    expect((await prune({})).statusCode).toBe(400);
    expect((await prune({ confirm: false })).statusCode).toBe(400);
    expect((await prune({ confirm: true })).json()).toEqual({
      pruned: [{ ...waiting, stack: null }],
    });
    expect(api.store.audit.list({ limit: 1 })[0]).toMatchObject({
      action: "prune_confirm",
      name: "web",
    });
  });
});

describe("POST /api/backup", () => {
  it("streams a copy of the store, and leaves no files", async () => {
    putApp(api.store, "web");
    const response = await api.request({ method: "POST", url: "/api/backup" });
    expect(response.statusCode).toBe(200);
    expect(response.headers["content-type"]).toBe("application/octet-stream");
    expect(response.headers["content-disposition"]).toContain("berth-2030-01-01");
    expect(response.rawPayload.subarray(0, 15).toString()).toBe("SQLite format 3");
    expect(response.rawPayload.length).toBe(Number(response.headers["content-length"]));
    await expect.poll(() => readdir(join(api.dataDir, "tmp"))).toEqual([]);
  });
});

describe("the metrics of the server", () => {
  it("count requests by route pattern, never by name", async () => {
    await api.request({ url: "/api/apps/some-name" });
    await api.request({ url: "/api/nowhere/some-name" });
    const { body, headers } = await api.server.inject({ url: "/metrics" });
    expect(headers["content-type"]).toContain("text/plain");
    expect(body).toContain(
      'berth_http_request_duration_seconds_count{method="GET",route="/api/apps/:name",status="404"} 1',
    );
    expect(body).not.toContain("some-name");
  });
});

describe("the OpenAPI document", () => {
  it("has every route, every kind as a component, and no reference without a target", async () => {
    const response = await api.server.inject({ url: "/api/openapi.json" });
    const document = response.json();
    expect(document.openapi).toBe("3.1.0");
    expect(document.info.version).toBe("1.2.3");
    expect(Object.keys(document.paths)).toEqual(
      expect.arrayContaining([
        "/api/health",
        "/api/apps",
        "/api/apps/{name}/logs",
        "/api/deploy",
        "/api/llm/start",
        "/api/llm/models/{id}/progress",
        "/metrics",
      ]),
    );
    const components = Object.keys(document.components.schemas);
    expect(components).toEqual(expect.arrayContaining(["App", "Model", "Template", "Secret"]));
    const references = [...response.body.matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1]);
    expect(references.length).toBeGreaterThan(100);
    for (const reference of new Set(references)) {
      expect(components.map((name) => `#/components/schemas/${name}`)).toContain(reference);
    }
    const list = document.paths["/api/apps"].get;
    expect(list.responses["200"].content["application/json"].schema).toEqual({
      $ref: "#/components/schemas/AppList",
    });
    expect(document.components.schemas.AppList.properties.apps.items).toEqual({
      $ref: "#/components/schemas/AppItem",
    });
    expect(document.components.schemas.ModelList.properties.models.items).toEqual({
      $ref: "#/components/schemas/ModelItem",
    });
    expect(document.components.schemas.ModelDetails.properties.spec).toEqual({
      $ref: "#/components/schemas/AnyModelSpec",
    });
    expect(document.paths["/api/health"].get.security).toEqual([]);
    expect(response.body).not.toContain("x-component");
  });

  it("can be viewed in a browser", async () => {
    const page = await api.server.inject({ url: "/api/docs" });
    expect(page.statusCode).toBe(200);
    expect(page.headers["content-type"]).toContain("text/html");
    expect(String(page.headers["content-security-policy"])).not.toContain("upgrade-insecure");
    const script = await api.server.inject({ url: "/api/docs/static/swagger-ui-bundle.js" });
    expect(script.statusCode).toBe(200);
  });
});

describe("a leftover file of an earlier process", () => {
  it("is removed at the start if it is a partial backup", async () => {
    await api.request({ method: "POST", url: "/api/backup" });
    const left = join(api.dataDir, "tmp", "backup-dead.db");
    await writeFile(left, "secrets");
    await using other = await openTestApi({ dataDir: api.dataDir });
    await expect.poll(() => readdir(join(api.dataDir, "tmp"))).toEqual([]);
    expect(other.server.server.listening).toBe(false);
  });
});
