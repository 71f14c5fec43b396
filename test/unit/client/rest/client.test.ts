import { createServer, type RequestListener, type Server } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ensurePassword } from "../../../../src/api/auth/password.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { BerthError } from "../../../../src/base/errors.ts";
import { ApiError } from "../../../../src/client/rest/api-error.ts";
import { type Client, createClient } from "../../../../src/client/rest/client.ts";
import { API_VERSION } from "../../../../src/resources/kinds.ts";
import {
  appStatus,
  condition,
  openTestApi,
  putApp,
  type TestApi,
} from "../../../support/api-harness.ts";

let api: TestApi;
let client: Client;
beforeEach(async () => {
  api = await openTestApi({ clock: systemClock });
  client = createClient({ baseUrl: await api.listen(), token: api.token("admin") });
});
afterEach(() => api[Symbol.asyncDispose]());

/** Awaits a write, which must not be a dry run, and returns the app that it has written. */
async function written(write: ReturnType<Client["apps"]["start"]>) {
  const result = await write;
  if (result.dryRun) throw new Error("a dry run");
  return result;
}

/** Starts an HTTP server on a free port, to which the client connects instead of Berth. */
async function serve(listener: RequestListener): Promise<{ server: Server; baseUrl: string }> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { server, baseUrl: `http://127.0.0.1:${address.port}` };
}

describe("the REST client", () => {
  it("has a method for each operation on apps", async () => {
    const made = await written(client.apps.create({ name: "web", image: "bb:1", port: 80 }));
    expect(made).toMatchObject({ app: { name: "web", port: 80 }, timedOut: false, accepted: true });
    expect(await client.apps.list({ limit: 1 })).toMatchObject({
      apps: [{ name: "web" }],
      total: 1,
    });
    expect(await client.apps.listAll()).toHaveLength(1);
    expect((await client.apps.get("web")).spec).toEqual({ image: "bb:1", port: 80 });
    expect((await written(client.apps.start("web"))).accepted).toBe(false);
    expect((await written(client.apps.restart("web"))).app.generation).toBe(2);
    expect((await written(client.apps.patch("web", { port: null }))).app.port).toBeNull();
    expect((await written(client.apps.deploy("web", { image: "bb:2" }))).app.image).toBe("bb:2");
    expect((await written(client.apps.stop("web"))).app.spec.running).toBe(false);
    await written(client.apps.retry("web"));
    await expect(client.apps.rollback("web")).rejects.toMatchObject({ status: 409 });
    await expect(client.apps.rollback("web", 7)).rejects.toMatchObject({ status: 404 });
    expect(await client.apps.revisions("web")).toEqual({ revisions: [], total: 0 });
    expect(await client.builds.list("web")).toEqual({ builds: [], total: 0 });
    expect((await client.apps.plan("web")).app).toBe("web");
    expect(await client.apps.logs("web", { tail: 3 })).toEqual({ name: "web", lines: [] });
    expect(await client.apps.logText("web")).toBe("");
    const dry = await client.apps.delete("web", { dryRun: true, deleteVolumes: true });
    expect(dry).toMatchObject({ dryRun: true, report: { name: "web", plan: null } });
    expect((await written(client.apps.delete("web"))).app.status).toBe("deleting");
  });

  it("has a method for each operation on the server, and on resources other than apps", async () => {
    expect(await client.health()).toMatchObject({ status: "ok" });
    expect((await client.system.info()).version).toBe("1.2.3");
    expect((await client.system.config()).config).toHaveLength(2);
    expect((await client.specs()).state).toBe("watching");
    expect(await client.prune()).toEqual({ pruned: [] });
    expect(await client.templates.list()).toEqual({ templates: [], total: 0 });
    await expect(client.templates.get("x")).rejects.toMatchObject({ status: 404 });
    await client.secrets.create({ name: "db", data: { a: "1" } });
    await client.secrets.put("db", { data: { b: "2" } });
    await client.secrets.patch("db", { data: { c: "3" } });
    expect((await client.secrets.get("db")).keys).toEqual(["b", "c"]);
    expect((await client.secrets.list()).total).toBe(1);
    expect((await client.secrets.delete("db")).state).toBe("deleted");
    const manifest = {
      apiVersion: API_VERSION,
      kind: "Model",
      metadata: { name: "small" },
      spec: { source: "org/small" },
    } as const;
    const applied = await client.apply({ manifests: [manifest], manager: "cli" });
    expect(applied.results).toMatchObject([{ kind: "Model", action: "created" }]);
    expect((await client.models.list()).models[0]?.id).toBe("org/small");
    expect(await client.models.start("org/small")).toMatchObject({ model: { name: "small" } });
    expect(await client.models.stop()).toMatchObject({ models: [{ name: "small" }] });
    await expect(client.models.get("nobody")).rejects.toMatchObject({ code: "not_found" });
    expect((await client.resources.list("Model")).total).toBe(1);
    expect((await client.resources.get("Model", "small")).kind).toBe("Model");
    expect((await client.resources.delete("Model", "small")).state).toBe("deleting");
    expect((await client.events.list({ limit: 5 })).events).toEqual([]);
    expect((await client.events.audit({ limit: 2 })).entries).toHaveLength(2);
    expect((await client.openapi())["openapi"]).toBe("3.1.0");
    expect(await client.metrics()).toContain("berth_http_request_duration_seconds");
    const copy = Buffer.from(await new Response(await client.backup()).arrayBuffer());
    expect(copy.subarray(0, 15).toString()).toBe("SQLite format 3");
  });

  it("logs in, returns the owner of the token, creates and revokes tokens, and logs out", async () => {
    await ensurePassword(api.store, "open sesame");
    const open = createClient({ baseUrl: client.origin });
    await expect(open.apps.list()).rejects.toMatchObject({ status: 401, code: "unauthorized" });
    const { token } = await open.auth.login("open sesame");
    const session = createClient({ baseUrl: client.origin, token });
    expect((await session.auth.whoami()).kind).toBe("session");
    expect((await session.auth.createToken({ name: "ci", scope: "read" })).token).not.toBe("");
    expect((await session.auth.tokens()).tokens.map(({ name }) => name)).toContain("ci");
    await session.auth.revokeToken("ci");
    await session.auth.logout();
    await expect(session.health()).resolves.toBeDefined();
    await expect(session.apps.list()).rejects.toBeInstanceOf(ApiError);
  });
});

describe("waiting with the REST client", () => {
  it("for Ready uses several requests, and rejects with the reason of a failure", async () => {
    const { uid } = putApp(api.store, "web");
    const early = await client.apps.waitReady("web", { timeoutMs: 0 });
    expect(early).toMatchObject({ timedOut: true, app: { name: "web" } });
    const waiting = client.apps.waitReady("web", { timeoutMs: 30_000, generation: 1 });
    api.store.setStatus("App", "web", uid, appStatus(1));
    expect(await waiting).toMatchObject({ timedOut: false, app: { ready: true } });
    putApp(api.store, "web", { image: "bb:2" });
    const stalled = condition("Stalled", "True", 2, { message: "no such image" });
    api.store.setStatus(
      "App",
      "web",
      uid,
      appStatus(2, { phase: "failed", conditions: [stalled] }),
    );
    await expect(client.apps.waitReady("web", { timeoutMs: 30_000 })).rejects.toMatchObject({
      status: 409,
      message: expect.stringContaining("no such image"),
    });
  });

  it("for a deletion returns true once the app is deleted", async () => {
    putApp(api.store, "web");
    expect(await client.apps.waitDeleted("web", { timeoutMs: 0 })).toBe(false);
    const waiting = client.apps.waitDeleted("web", { timeoutMs: 30_000 });
    api.store.delete("App", "web", { actor: { name: "user:admin" }, manager: "api" });
    api.store.removeFinalizer("App", "web", "berth.dev/containers");
    expect(await waiting).toBe(true);
  });
});

describe("errors of the REST client", () => {
  it("contain status, code, message and request id", async () => {
    const error: unknown = await client.apps.get("nope").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toBeInstanceOf(BerthError);
    expect(error).toMatchObject({
      status: 404,
      code: "not_found",
      message: 'there is no app "nope"',
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
  });

  it("do not occur for names with special characters, which the client encodes", async () => {
    putApp(api.store, "web");
    for (const name of ["../apps", "web/../web", "web?x=1", "web#x", "%2e%2e", "a b"]) {
      await expect(client.apps.get(name)).rejects.toMatchObject({ status: 404 });
    }
    for (const name of ["", ".", ".."]) {
      await expect(async () => client.apps.get(name)).rejects.toMatchObject({
        code: "invalid_request",
      });
    }
  });

  it("name the next step if no server answers", async () => {
    const { server, baseUrl } = await serve(() => {});
    await new Promise((resolve) => server.close(resolve));
    const nowhere = createClient({ baseUrl });
    await expect(nowhere.health()).rejects.toMatchObject({
      code: "server_unreachable",
      message: expect.stringContaining("ECONNREFUSED"),
      hint: expect.stringContaining("berth up"),
    });
  });

  it("describe answers of a server that is not Berth", async () => {
    const { server, baseUrl } = await serve((request, response) => {
      response.writeHead(request.url === "/api/health" ? 502 : 200).end("<html>hello</html>");
    });
    const other = createClient({ baseUrl });
    await expect(other.health()).rejects.toMatchObject({
      status: 502,
      message: "the server answered 502 Bad Gateway",
    });
    await expect(other.specs()).rejects.toMatchObject({ code: "internal" });
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it("are the abort reason of the signal when the caller aborts", async () => {
    putApp(api.store, "web");
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(client.apps.get("web", signal)).rejects.toThrow("enough");
  });

  it("are thrown at once for an invalid URL", () => {
    for (const baseUrl of ["", "localhost", "127.0.0.1:7776", "ftp://x", "unix:///x"]) {
      expect(() => createClient({ baseUrl })).toThrow("is not the URL of a server");
    }
  });
});
