import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BerthError } from "../../../src/base/errors.ts";
import { API_VERSION, type Manifest } from "../../../src/resources/kinds.ts";
import {
  appStatus,
  openTestApi,
  putApp,
  readErrorBody,
  type TestApi,
} from "../../support/api-harness.ts";
import { modelManifest } from "../../support/model-fixtures.ts";

const catalog: Manifest<"Template">[] = [
  {
    apiVersion: API_VERSION,
    kind: "Template",
    metadata: { name: "blog" },
    spec: {
      title: "Blog",
      description: "A blog with a database.",
      category: "web",
      parameters: [
        { name: "version", default: "1" },
        { name: "password", generate: 16, secret: true },
      ],
      app: { image: "blog:${version}", port: 8080, env: { DB_PASSWORD: "${password}" } },
      companions: [{ suffix: "db", app: { image: "db:1", env: { PASSWORD: "${password}" } } }],
    },
  },
];

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi({ templates: catalog });
});
afterEach(() => api[Symbol.asyncDispose]());

const app = (name: string, spec: object) => ({
  apiVersion: API_VERSION,
  kind: "App",
  metadata: { name },
  spec,
});
const apply = (payload: object, query = "") =>
  api.request({ method: "POST", url: `/api/apply${query}`, payload });

const call = (
  method: "POST" | "PUT" | "PATCH" | "DELETE" | "GET",
  path: string,
  payload?: object,
) => api.request({ method, url: `/api/secrets${path}`, ...(payload ? { payload } : {}) });

describe("POST /api/apply", () => {
  it("creates and configures resources, and reports the action and the changes of each resource", async () => {
    putApp(api.store, "same", { image: "bb:1" }, "cli");
    putApp(api.store, "other", { image: "bb:1", port: 80 }, "cli");
    const secret = {
      apiVersion: API_VERSION,
      kind: "Secret",
      metadata: { name: "key" },
      spec: { data: { value: "hunter2" } },
    };
    const response = await apply({
      manager: "cli",
      manifests: [
        secret,
        app("new", { image: "bb:1" }),
        app("same", { image: "bb:1" }),
        app("other", { image: "bb:2" }),
      ],
    });
    expect(response.statusCode).toBe(200);
    expect(response.body).not.toContain("hunter2");
    expect(response.json()).toMatchObject({
      dry_run: false,
      results: [
        { kind: "Secret", name: "key", action: "created" },
        { name: "new", action: "created", generation: 1, plan: null },
        { name: "same", action: "unchanged", changes: [] },
        {
          name: "other",
          action: "configured",
          generation: 2,
          changes: [
            { path: "/spec/image", before: "bb:1", after: "bb:2" },
            { path: "/spec/port", before: 80 },
          ],
        },
      ],
    });
    expect(api.store.secrets.reveal("key")).toEqual({ value: "hunter2" });
  });

  it("writes nothing if one manifest is invalid, and lists the issues of all", async () => {
    const response = await apply({
      manifests: [
        app("good", { image: "bb:1" }),
        app("Bad", { image: "bb:1" }),
        app("worse", { imge: "x" }),
        "text",
        app("good", { image: "bb:2" }),
      ],
    });
    expect(response.statusCode).toBe(400);
    const message = readErrorBody(response);
    expect(message).toContain("manifests[1].metadata.name");
    expect(message).toContain('did you mean "image"?');
    expect(message).toContain("manifests[3]: expected an object");
    expect(message).toContain('more than one App "good"');
    expect(api.store.list("App")).toEqual([]);
  });

  it("writes nothing if one manifest changes a field that a spec file owns", async () => {
    putApp(api.store, "held", { image: "bb:1" }, "file:held.yaml");
    const manifests = [app("new", { image: "bb:1" }), app("held", { image: "bb:2" })];
    const response = await apply({ manifests });
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("held.yaml");
    expect(api.store.get("App", "new")).toBeUndefined();
    expect((await apply({ manifests, force: true })).statusCode).toBe(200);
    expect(api.store.get("App", "held")?.spec.image).toBe("bb:2");
  });

  it("plans each app on a dry run and writes nothing, even if the engine is unreachable", async () => {
    const manifests = [app("new", { image: "bb:1" })];
    const planned = (await apply({ manifests, dry_run: true })).json();
    expect(planned.results[0]).toMatchObject({ action: "created", plan: { app: "new" } });
    expect(api.control.alongside.map(({ resource }) => resource.metadata.name)).toEqual(["new"]);
    api.control.planError = new BerthError("engine_unreachable", "the engine is away");
    const away = (await apply({ manifests }, "?dry_run=true")).json();
    expect(away.results[0]).toMatchObject({ plan: null, plan_message: "the engine is away" });
    expect(api.store.lastSequence).toBe(0);
  });

  it("waits until all apps are Ready if the request asks for it", async () => {
    const manifests = [app("a", { image: "bb:1" }), app("b", { image: "bb:1" })];
    const request = apply({ manifests }, "?wait=true");
    await expect.poll(() => api.store.list("App").length).toBe(2);
    for (const { metadata } of api.store.list("App")) {
      api.store.setStatus("App", metadata.name, metadata.uid, appStatus(1));
    }
    expect((await request).statusCode).toBe(200);
  });

  it.each([
    [{}, "manifests"],
    [{ manifests: [] }, "manifests"],
    [{ manifests: {} }, "manifests"],
    [{ manifests: [app("a", { image: "b" })], manager: "file:x.yaml" }, "manager"],
    [{ manifests: [app("a", { image: "b" })], fore: true }, 'did you mean "force"?'],
  ])("refuses the invalid body %j", async (payload, message) => {
    const response = await apply(payload);
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toContain(message);
  });
});

describe("resources in the API", () => {
  it("are shown in the form of their manifests, without the internal state of reconcilers", async () => {
    const { uid } = putApp(api.store, "web");
    api.store.setStatus("App", "web", uid, appStatus(1));
    const one = (await api.request({ url: "/api/resources/app/web" })).json();
    expect(one).toMatchObject({
      apiVersion: API_VERSION,
      kind: "App",
      metadata: { name: "web", generation: 1, owners: { "/spec/image": "api" } },
      spec: { image: "bb:1", port: 80 },
      status: { phase: "running", observedGeneration: 1 },
    });
    expect(one.status).not.toHaveProperty("memory");
    for (const kind of ["apps", "App", "app"]) {
      expect((await api.request({ url: `/api/resources/${kind}` })).json()).toEqual({
        items: [one],
        total: 1,
      });
    }
    const unknown = await api.request({ url: "/api/resources/secrts" });
    expect(unknown.statusCode).toBe(404);
    expect(readErrorBody(unknown)).toContain('Did you mean "secrets"?');
  });

  it("are deleted immediately, or with 202 if containers or files are removed first", async () => {
    putApp(api.store, "web");
    const spec = { title: "Own", description: "x", category: "web", app: { image: "mine:1" } };
    await apply({
      manifests: [
        { apiVersion: API_VERSION, kind: "Template", metadata: { name: "own" }, spec },
        modelManifest("small", { source: "org/small" }),
      ],
    });
    const remove = (path: string) =>
      api.request({ method: "DELETE", url: `/api/resources/${path}` });
    const own = await remove("templates/own");
    expect(own.statusCode).toBe(200);
    expect(own.json()).toEqual({ kind: "Template", name: "own", state: "deleted" });
    const model = await remove("models/small");
    expect([model.statusCode, model.json().state]).toEqual([202, "deleting"]);
    expect((await remove("apps/web?dry_run=true")).json().state).toBe("deleting");
    expect(api.store.get("App", "web")?.metadata.deletionTimestamp).toBeNull();
    expect((await remove("apps/web")).statusCode).toBe(202);
    expect(api.control.woken).toContain("App/web");
    expect((await remove("apps/nope")).statusCode).toBe(404);
  });
});

describe("secrets in the API", () => {
  it("accept values and never show them", async () => {
    const made = await call("POST", "", { name: "db", data: { password: "hunter2", user: "me" } });
    expect(made.statusCode).toBe(201);
    const shown = { name: "db", type: "opaque", keys: ["password", "user"], managed_by: "api" };
    expect(made.json()).toMatchObject(shown);
    expect((await call("GET", "")).json()).toMatchObject({ secrets: [shown], total: 1 });
    for (const url of [
      "/api/secrets",
      "/api/secrets/db",
      "/api/resources/secrets/db",
      "/api/resources/secrets",
      "/api/audit",
      "/api/events?format=list",
    ]) {
      expect((await api.request({ url })).body).not.toContain("hunter2");
    }
    expect(JSON.stringify(api.entries)).not.toContain("hunter2");
  });

  it("can be replaced, changed by key and deleted", async () => {
    expect((await call("PUT", "/db", { data: { a: "1", b: "2" } })).statusCode).toBe(201);
    expect((await call("PUT", "/db", { data: { b: "3" } })).statusCode).toBe(200);
    expect(api.store.secrets.reveal("db")).toEqual({ b: "3" });
    expect((await call("PATCH", "/db", { data: { c: "4", b: null } })).statusCode).toBe(200);
    expect(api.store.secrets.reveal("db")).toEqual({ c: "4" });
    expect((await call("POST", "", { name: "db", data: { a: "1" } })).statusCode).toBe(409);
    expect((await call("DELETE", "/db")).statusCode).toBe(200);
    expect((await call("GET", "/db")).statusCode).toBe(404);
    expect((await call("PATCH", "/db", { data: { c: "4" } })).statusCode).toBe(404);
  });

  it("are refused if a value is not a string, and the error does not show the value", async () => {
    const response = await call("POST", "", { name: "db", data: { key: ["hunter2"] } });
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toContain("data.key");
    expect(response.body).not.toContain("hunter2");
    const number = await call("POST", "", { name: "db", data: { key: 12345678 } });
    expect(number.statusCode).toBe(400);
  });
});

describe("templates in the API", () => {
  it("are listed without a token; a Template resource replaces the built-in template of the same name", async () => {
    const list = await api.server.inject({ url: "/api/templates" });
    expect(list.json()).toMatchObject({
      templates: [
        {
          id: "blog",
          name: "Blog",
          category: "web",
          image: "blog:1",
          port: 8080,
          companions: ["db"],
          built_in: true,
          parameters: [
            { name: "version", default: "1", generated: false },
            { name: "password", secret: true, generated: true },
          ],
        },
      ],
      total: 1,
    });
    const own = { title: "My blog", description: "x", category: "web", app: { image: "mine:1" } };
    const metadata = { name: "blog" };
    await apply({
      manifests: [{ apiVersion: API_VERSION, kind: "Template", metadata, spec: own }],
    });
    expect((await api.server.inject({ url: "/api/templates/blog" })).json()).toMatchObject({
      name: "My blog",
      built_in: false,
    });
    expect((await api.server.inject({ url: "/api/templates" })).json().total).toBe(1);
  });

  it("do not show the default of a secret parameter, because the catalog is public", async () => {
    const own = {
      title: "T",
      description: "x",
      category: "web",
      parameters: [{ name: "password", secret: true, required: true, default: "hunter2" }],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the template
      app: { image: "mine:1", env: { PASSWORD: "${password}" } },
    };
    const metadata = { name: "mine" };
    await apply({
      manifests: [{ apiVersion: API_VERSION, kind: "Template", metadata, spec: own }],
    });
    for (const url of ["/api/templates", "/api/templates/mine"]) {
      const { body } = await api.server.inject({ url });
      expect(body).toContain('"required":false,"secret":true');
      expect(body).not.toContain("hunter2");
    }
  });

  it("create an app, its companions and its secrets", async () => {
    const response = await api.request({
      method: "POST",
      url: "/api/apps/from-template",
      payload: { template_id: "blog", name: "diary", parameters: { version: "2" } },
    });
    expect(response.statusCode).toBe(201);
    expect(response.json()).toMatchObject({ name: "diary", image: "blog:2" });
    expect(response.json().created).toEqual(
      expect.arrayContaining([
        { kind: "App", name: "diary" },
        { kind: "App", name: "diary-db" },
        { kind: "Secret", name: "diary-password" },
      ]),
    );
    const { value } = api.store.secrets.reveal("diary-password") ?? {};
    expect(value).toHaveLength(16);
    expect(response.body).not.toContain(value);
  });

  it("create nothing if one of the names is taken, or on a dry run", async () => {
    const make = (query = "") =>
      api.request({
        method: "POST",
        url: `/api/apps/from-template${query}`,
        payload: { template_id: "blog", name: "diary" },
      });
    const dry = (await make("?dry_run=true")).json();
    expect(dry.message).toContain("App diary-db");
    const { alongside } = api.control;
    expect(alongside.map(({ resource }) => resource.metadata.name)).toContain("diary-db");
    const secret = alongside.find(({ resource }) => resource.kind === "Secret");
    expect(secret?.values?.["value"]).toHaveLength(16);
    expect(JSON.stringify(dry)).not.toContain(secret?.values?.["value"]);
    expect(api.store.lastSequence).toBe(0);
    putApp(api.store, "diary");
    expect((await make()).statusCode).toBe(409);
    expect(api.store.list("Secret")).toEqual([]);
    expect(api.store.get("App", "diary-db")).toBeUndefined();
  });

  it.each([
    [{ template_id: "blogg", name: "x" }, 404, 'Did you mean "blog"?'],
    [{ template_id: "blog", name: "X" }, 400, "name"],
    [{ template_id: "blog" }, 400, "name"],
    [{ template_id: "blog", name: "x", parameters: { versoin: "1" } }, 400, "version"],
    [{ template_id: "blog", name: "x", parameters: { version: [1] } }, 400, "version"],
  ])("refuse to create an app from the invalid body %j", async (payload, status, message) => {
    const url = "/api/apps/from-template";
    const response = await api.request({ method: "POST", url, payload });
    expect(response.statusCode).toBe(status);
    expect(readErrorBody(response)).toContain(message);
  });
});

describe("deleting a Secret that is in use", () => {
  const users: readonly (readonly [string, object])[] = [
    ["env", { image: "bb:1", env: { PASSWORD: { secret: "db" } } }],
    ["pullSecret", { image: "bb:1", pullSecret: "db" }],
    ["ingress.basicAuth", { image: "bb:1", port: 80, ingress: { basicAuth: { secret: "db" } } }],
    [
      "source.git.hookSecret",
      { source: { git: { url: "https://example.org/a.git", hookSecret: "db" } } },
    ],
  ];

  it.each(users)("is refused without force if an app names it in %s", async (_, spec) => {
    await api.request({
      method: "POST",
      url: "/api/secrets",
      payload: { name: "db", data: { value: "1" } },
    });
    putApp(api.store, "web", spec);
    for (const url of ["/api/secrets/db", "/api/resources/secrets/db"]) {
      const refused = await api.request({ method: "DELETE", url });
      expect(refused.statusCode).toBe(409);
      expect(readErrorBody(refused)).toContain('used by app "web"');
      expect(readErrorBody(refused)).toContain("force");
    }
    const forced = await api.request({ method: "DELETE", url: "/api/secrets/db?force=true" });
    expect(forced.statusCode).toBe(200);
    expect(api.store.get("Secret", "db")).toBeUndefined();
  });
});

const dependent = (name: string, dependsOn: readonly string[]) =>
  app(name, { image: "bb:1", dependsOn });
const applyAll = (manifests: readonly object[]) =>
  api.request({ method: "POST", url: "/api/apply", payload: { manifests } });

describe("an app that would depend on itself", () => {
  it("is refused when it is written, and the error names the cycle", async () => {
    putApp(api.store, "web", { image: "bb:1", dependsOn: ["db"] });
    putApp(api.store, "db", { image: "bb:1", dependsOn: ["disk"] });
    for (const response of [
      await api.request({
        method: "POST",
        url: "/api/apps",
        payload: { name: "disk", image: "bb:1", dependsOn: ["web"] },
      }),
      await applyAll([dependent("disk", ["web"])]),
    ]) {
      expect(response.statusCode).toBe(409);
      expect(readErrorBody(response)).toContain("disk -> web -> db -> disk");
    }
    expect(api.store.get("App", "disk")).toBeUndefined();
  });

  it("is refused also if one request contains the whole cycle; a request that removes a cycle is accepted", async () => {
    const circle = [dependent("one", ["two"]), dependent("two", ["one"])];
    expect((await applyAll(circle)).statusCode).toBe(409);
    putApp(api.store, "one", { image: "bb:1", dependsOn: ["two"] });
    putApp(api.store, "two", { image: "bb:1" });
    const turned = [dependent("one", []), dependent("two", ["one"])];
    expect((await applyAll(turned)).statusCode).toBe(200);
  });
});
