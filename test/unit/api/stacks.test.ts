import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { STACK_LABEL } from "../../../src/resources/stack.ts";
import { appStatus, openTestApi, type TestApi } from "../../support/api-harness.ts";
import { applyResource } from "../../support/test-store.ts";

let api: TestApi;

beforeEach(async () => {
  api = await openTestApi();
});
afterEach(async () => {
  await api[Symbol.asyncDispose]();
});

const labels = { [STACK_LABEL]: "blog" };

function addApp(name: string, more: object = {}) {
  return applyResource(api.store, "App", name, { image: "web:1", ...more }, { labels });
}

function makeReady(name: string): void {
  const { uid, generation } = api.store.get("App", name)?.metadata ?? { uid: "", generation: 0 };
  api.store.setStatus("App", name, uid, appStatus(generation));
}

const get = async (url: string) => (await api.request({ method: "GET", url })).json();
const post = (url: string, payload?: object) =>
  api.request({ method: "POST", url, ...(payload && { payload }) });

describe("GET /api/stacks", () => {
  it("derives each stack from its apps, and the status from the app that most needs attention", async () => {
    addApp("blog-db");
    addApp("blog-web", { port: 80 });
    makeReady("blog-db");
    applyResource(api.store, "App", "other", { image: "web:1" });
    const { stacks, total } = await get("/api/stacks");
    expect(total).toBe(1);
    expect(stacks[0]).toMatchObject({ name: "blog", apps: 2, ready: 1, status: "pending" });
    expect(stacks[0].message).toMatch(/^blog-web: /);
  });

  it("shows the apps and the Secrets of one stack", async () => {
    addApp("blog-db");
    applyResource(api.store, "Secret", "blog-password", { data: { value: "x" } }, { labels });
    const stack = await get("/api/stacks/blog");
    expect(stack.members.map(({ name }: { name: string }) => name)).toEqual(["blog-db"]);
    expect(stack.secrets).toEqual(["blog-password"]);
    expect(JSON.stringify(stack)).not.toContain('"x"');
  });

  it("responds with 404 if no resource names the stack", async () => {
    const answer = await api.request({ method: "GET", url: "/api/stacks/blog" });
    expect(answer.statusCode).toBe(404);
    expect(answer.json().error).toContain('there is no stack "blog"');
  });
});

describe("apps of a stack", () => {
  it("are created with the field stack, and listed with ?stack=", async () => {
    const body = { name: "blog-web", stack: "blog", image: "web:1", aliases: ["www"] };
    const created = await post("/api/apps", body);
    expect(created.statusCode).toBe(201);
    expect(created.json()).toMatchObject({ stack: "blog", spec: { aliases: ["www"] } });
    applyResource(api.store, "App", "other", { image: "web:1" });
    const listed = await get("/api/apps?stack=blog");
    expect(listed).toMatchObject({ total: 1, apps: [{ name: "blog-web", stack: "blog" }] });
    expect((await get("/api/apps?stack=shop")).total).toBe(0);
    expect((await get("/api/apps")).total).toBe(2);
  });

  it("are refused under a name that does not begin with the name of the stack", async () => {
    const answer = await post("/api/apps", { name: "web", stack: "blog", image: "web:1" });
    expect(answer.statusCode).toBe(400);
    expect(answer.json().error).toContain("of the form blog-SERVICE");
  });

  it("have the field stack in their manifests, which can be applied again without a change", async () => {
    addApp("blog-web");
    const resource = await get("/api/resources/apps/blog-web");
    expect(resource.metadata.stack).toBe("blog");
    const written = {
      apiVersion: "berth.dev/v1",
      kind: "App",
      metadata: { name: "blog-web", stack: "blog" },
      spec: { image: "web:1" },
    };
    const answer = await post("/api/apply?dry_run=true", { manifests: [written] });
    expect(answer.json().results).toMatchObject([{ name: "blog-web", changes: [] }]);
  });
});

describe("an app that belongs to a stack", () => {
  it("is not taken out of it by a document that names another stack or none; the error names the stack", async () => {
    addApp("blog-web");
    const longer = { ...manifest("blog-web-shop"), metadata: { name: "blog-web-shop-x" } };
    for (const answer of [
      await apply("", manifest()),
      await apply("?dry_run=true", manifest()),
      await apply("?force=true", manifest(), longer),
    ]) {
      expect(answer.statusCode).toBe(409);
      expect(answer.json().error).toContain("App blog-web belongs to the stack blog");
    }
    const again = await post("/api/apps", { name: "blog-web", image: "other:1" });
    expect(again.statusCode).toBe(409);
    expect(again.json().error).toContain("belongs to the stack blog");
    expect(api.store.get("App", "blog-web")?.spec.image).toBe("web:1");
  });

  it("is changed by a document that names its stack, and taken out of it with force", async () => {
    addApp("blog-web");
    expect((await apply("", manifest("blog"))).statusCode).toBe(200);
    expect(api.store.get("App", "blog-web")?.spec.image).toBe("other:1");
    expect((await apply("?force=true", manifest())).statusCode).toBe(200);
    expect((await get("/api/stacks")).total).toBe(0);
    expect((await apply("", manifest("blog"))).statusCode).toBe(200);
    expect((await get("/api/stacks")).total).toBe(1);
  });
});

describe("the host name of an app", () => {
  it("cannot be the name of another app, whose requests it would get too", async () => {
    applyResource(api.store, "App", "db", { image: "web:1" });
    const named = { name: "blog-db", stack: "blog", image: "web:1", hostname: "DB" };
    const answer = await post("/api/apps", named);
    expect(answer.statusCode).toBe(409);
    expect(answer.json().error).toContain('the host name db is the name of the app "db"');
    expect((await post("/api/apps", { ...named, hostname: "blog-db" })).statusCode).toBe(201);
  });

  it("cannot become the name of a new app, and does not block other changes", async () => {
    addApp("blog-cache", { hostname: "cache" });
    const answer = await post("/api/apps", { name: "cache", image: "web:1" });
    expect(answer.statusCode).toBe(409);
    expect(answer.json().error).toContain('the app "blog-cache" has the host name cache');
    applyResource(api.store, "App", "cache", { image: "web:1" });
    const url = "/api/apps/blog-cache";
    const patched = await api.request({ method: "PATCH", url, payload: { image: "web:2" } });
    expect(patched.statusCode).toBe(202);
  });
});

describe("plans", () => {
  it("of all apps of a stack are returned together", async () => {
    addApp("blog-db");
    addApp("blog-web");
    const { stack, plans } = await get("/api/stacks/blog/plan");
    expect(stack).toBe("blog");
    expect(plans.map(({ app }: { app: string }) => app)).toEqual(["blog-db", "blog-web"]);
    expect((await api.request({ url: "/api/stacks/none/plan" })).statusCode).toBe(404);
  });

  it("of a dry run name the stack of each resource", async () => {
    const metadata = { name: "blog-web", stack: "blog" };
    const manifests = [
      { apiVersion: "berth.dev/v1", kind: "App", metadata, spec: { image: "web:1" } },
      { apiVersion: "berth.dev/v1", kind: "App", metadata: { name: "x" }, spec: { image: "w:1" } },
    ];
    const { results } = (await post("/api/apply?dry_run=true", { manifests })).json();
    expect(results).toMatchObject([{ stack: "blog" }, { stack: null }]);
  });
});

describe("POST /api/stacks/:name/VERB", () => {
  it("stops and starts all apps, and reports which changed", async () => {
    addApp("blog-db");
    addApp("blog-web", { running: false });
    const stopped = await post("/api/stacks/blog/stop");
    expect(stopped.statusCode).toBe(202);
    expect(stopped.json().changed).toEqual(["app/blog-db"]);
    const started = await post("/api/stacks/blog/start");
    expect(started.json().changed).toEqual(["app/blog-db", "app/blog-web"]);
    expect((await post("/api/stacks/blog/start")).statusCode).toBe(200);
  });

  it("restarts the running apps only", async () => {
    addApp("blog-db");
    addApp("blog-web", { running: false });
    expect((await post("/api/stacks/blog/restart")).json().changed).toEqual(["app/blog-db"]);
  });

  it("changes no app if a spec file owns the field of one of them", async () => {
    addApp("blog-db");
    const more = { labels, manager: "file:blog.yaml", declares: true };
    applyResource(api.store, "App", "blog-web", { image: "web:1", running: true }, more);
    const refused = await post("/api/stacks/blog/stop");
    expect(refused.statusCode).toBe(409);
    expect(refused.json().error).toContain("blog.yaml");
    expect(api.store.get("App", "blog-db")?.spec.running).toBeUndefined();
    expect((await post("/api/stacks/blog/stop?force=true")).json().changed).toHaveLength(2);
  });

  it("with ?dry_run=true, reports the changes without making them", async () => {
    addApp("blog-db");
    const answer = await post("/api/stacks/blog/stop?dry_run=true");
    expect(answer.statusCode).toBe(200);
    expect(answer.json()).toMatchObject({ dry_run: true, changed: ["app/blog-db"] });
    expect(api.store.get("App", "blog-db")?.spec.running).toBeUndefined();
  });
});

describe("DELETE /api/stacks/:name", () => {
  it("deletes the apps, and keeps the Secrets that later apps need for the kept volumes", async () => {
    addApp("blog-db", { env: { PASSWORD: { secret: "blog-password" } } });
    secret();
    const answer = await remove();
    expect(answer.statusCode).toBe(202);
    expect(answer.json().changed).toEqual(["app/blog-db"]);
    expect(api.store.get("App", "blog-db")?.metadata.deletionTimestamp).not.toBeNull();
    expect(api.store.get("Secret", "blog-password")).toBeDefined();
  });

  it("with ?delete_volumes=true, deletes the Secrets too", async () => {
    addApp("blog-db", { env: { PASSWORD: { secret: "blog-password" } } });
    secret();
    expect((await remove("?delete_volumes=true")).json().changed).toEqual([
      "app/blog-db",
      "secret/blog-password",
    ]);
    expect(api.store.get("Secret", "blog-password")).toBeUndefined();
  });

  it("deletes nothing if an app outside of the stack uses one of the Secrets", async () => {
    addApp("blog-db");
    secret();
    const env = { PASSWORD: { secret: "blog-password" } };
    applyResource(api.store, "App", "other", { image: "web:1", env });
    const refused = await remove("?delete_volumes=true");
    expect(refused.statusCode).toBe(409);
    expect(refused.json().error).toContain('app "other"');
    expect(api.store.get("App", "blog-db")?.metadata.deletionTimestamp).toBeNull();
  });

  it("deletes nothing if a spec file declares one of the apps, and in a dry run", async () => {
    addApp("blog-db");
    expect((await remove("?dry_run=true")).json()).toMatchObject({ dry_run: true });
    const more = { labels, manager: "file:blog.yaml", declares: true };
    applyResource(api.store, "App", "blog-web", { image: "web:1" }, more);
    expect((await remove()).statusCode).toBe(409);
    expect(api.store.get("App", "blog-db")?.metadata.deletionTimestamp).toBeNull();
  });
});

function manifest(stack?: string, image = "other:1") {
  return {
    apiVersion: "berth.dev/v1",
    kind: "App",
    metadata: { name: "blog-web", ...(stack && { stack }) },
    spec: { image },
  };
}

function apply(query: string, ...manifests: object[]) {
  return post(`/api/apply${query}`, { manifests });
}

function remove(query = "") {
  return api.request({ method: "DELETE", url: `/api/stacks/blog${query}` });
}

function secret() {
  return applyResource(api.store, "Secret", "blog-password", { data: { value: "x" } }, { labels });
}
