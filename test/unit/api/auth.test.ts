import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AttemptLimiter } from "../../../src/api/auth/attempt-limiter.ts";
import { writeLocalToken } from "../../../src/api/auth/local-token.ts";
import { ensurePassword, verifyPassword } from "../../../src/api/auth/password.ts";
import { openTestApi, putApp, readErrorBody, type TestApi } from "../../support/api-harness.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
});
afterEach(() => api[Symbol.asyncDispose]());

const login = (password: unknown, remoteAddress = "10.0.0.1") =>
  api.server.inject({
    method: "POST",
    url: "/api/auth/login",
    payload: { password },
    remoteAddress,
  });

const fail = (limiter: AttemptLimiter, address: string) => limiter.begin(address).end(false);

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

async function documentedRoutes() {
  const document: { paths: Record<string, Record<string, unknown>> } = (
    await api.server.inject({ url: "/api/openapi.json" })
  ).json();
  return Object.entries(document.paths).flatMap(([path, operations]) =>
    methods
      .filter((method) => method.toLowerCase() in operations)
      .map((method) => ({ method, path })),
  );
}

describe("routes of the API", () => {
  it("refuse requests without a token, except on the six public routes", async () => {
    const routes = await documentedRoutes();
    expect(routes.length).toBeGreaterThan(40);
    const open: string[] = [];
    for (const { method, path } of routes) {
      const url = path.replaceAll(/\{[^}]+\}/g, "x");
      const response = await api.server.inject({ method, url, remoteAddress: "10.0.0.9" });
      if (response.statusCode !== 401) open.push(`${method} ${path}`);
    }
    expect(open.toSorted()).toEqual([
      "GET /api/health",
      "GET /api/openapi.json",
      "GET /api/templates",
      "GET /api/templates/{id}",
      "POST /api/auth/login",
      "POST /api/hooks/git/{name}",
    ]);
  });

  it("refuse every invalid token", async () => {
    const good = api.token("admin");
    for (const authorization of [
      "",
      "Bearer",
      "Bearer ",
      `Basic ${good}`,
      good,
      `Bearer ${good}x`,
      `Bearer ${good.slice(0, -1)}`,
      `Bearer ${good} ${good}`,
      "Bearer ../../etc/passwd",
      `Bearer ${"a".repeat(5000)}`,
      "Bearer ' OR 1=1 --",
    ]) {
      const response = await api.server.inject({ url: "/api/apps", headers: { authorization } });
      expect([authorization, response.statusCode]).toEqual([authorization, 401]);
      expect(readErrorBody(response)).not.toContain(good);
    }
    const lower = await api.server.inject({
      url: "/api/apps",
      headers: { authorization: `bearer ${good}` },
    });
    expect(lower.statusCode).toBe(200);
  });

  it("enforce the scopes of tokens", async () => {
    putApp(api.store, "web");
    const status = async (scope: "read" | "write", method: "GET" | "POST", url: string) =>
      (
        await api.server.inject({
          method,
          url,
          headers: { authorization: `Bearer ${api.token(scope)}` },
        })
      ).statusCode;
    expect(await status("read", "GET", "/api/apps/web")).toBe(200);
    expect(await status("read", "POST", "/api/apps/web/stop")).toBe(403);
    expect(await status("write", "POST", "/api/apps/web/stop")).toBe(202);
    for (const url of ["/api/auth/tokens", "/api/audit"]) {
      expect(await status("write", "GET", url)).toBe(403);
    }
    expect(await status("write", "POST", "/api/backup")).toBe(403);
    expect(api.store.audit.list({ limit: 1 })[0]?.actor).toBe("token:test-write");
  });

  it("serve metrics without a token to clients on this machine only, and not through a proxy on this machine", async () => {
    const get = (remoteAddress: string, headers: Record<string, string> = {}) =>
      api.server.inject({ url: "/metrics", remoteAddress, headers });
    expect((await get("127.0.0.1")).statusCode).toBe(200);
    expect((await get("::1")).statusCode).toBe(200);
    expect((await get("::ffff:127.0.0.1")).statusCode).toBe(200);
    expect((await get("192.168.1.5")).statusCode).toBe(401);
    expect((await get("127.0.0.1", { "x-forwarded-for": "1.2.3.4" })).statusCode).toBe(401);
    const authorization = `Bearer ${api.token("read")}`;
    expect((await get("192.168.1.5", { authorization })).statusCode).toBe(200);
  });
});

describe("logging in", () => {
  it("creates a session of 24 hours that logout ends", async () => {
    await ensurePassword(api.store, "correct horse");
    const response = await login("correct horse");
    expect(response.statusCode).toBe(200);
    const body = response.json();
    expect(body).toEqual({
      token: expect.any(String),
      token_type: "Bearer",
      expires_in: 86_400,
      expires_at: "2030-01-02T00:00:00.000Z",
    });
    expect(response.headers["cache-control"]).toBe("no-store");
    const headers = { authorization: `Bearer ${body.token}` };
    const whoami = await api.server.inject({ url: "/api/auth/whoami", headers });
    expect(whoami.json()).toMatchObject({ kind: "session", scope: "admin" });
    await api.server.inject({
      method: "POST",
      url: "/api/apps",
      payload: { name: "web", image: "bb:1" },
      headers,
    });
    expect(api.store.audit.list({ limit: 1 })[0]?.actor).toBe("user:admin");
    const out = await api.server.inject({ method: "POST", url: "/api/auth/logout", headers });
    expect(out.statusCode).toBe(204);
    expect((await api.server.inject({ url: "/api/apps", headers })).statusCode).toBe(401);
  });

  it("creates a session that expires by itself", async () => {
    await ensurePassword(api.store, "correct horse");
    const headers = { authorization: `Bearer ${(await login("correct horse")).json().token}` };
    await api.clock.advance(24 * 3_600_000 - 1);
    expect((await api.server.inject({ url: "/api/apps", headers })).statusCode).toBe(200);
    await api.clock.advance(1);
    expect((await api.server.inject({ url: "/api/apps", headers })).statusCode).toBe(401);
  });

  it("returns 401 for a wrong password, and 429 from the sixth attempt in a minute, even if the attempts are concurrent", async () => {
    await ensurePassword(api.store, "correct horse");
    const first = await Promise.all(Array.from({ length: 8 }, () => login("wrong")));
    const statuses = first.map((response) => response.statusCode).toSorted((a, b) => a - b);
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429]);
    const blocked = await login("correct horse");
    expect(blocked.statusCode).toBe(429);
    expect(blocked.headers["retry-after"]).toBe("60");
    expect(readErrorBody(blocked)).toContain("60 seconds");
    expect((await login("correct horse", "10.0.0.2")).statusCode).toBe(200);
    await api.clock.advance(60_000);
    expect((await login("correct horse")).statusCode).toBe(200);
    const failures = api.store.audit
      .list({ limit: 100 })
      .filter((entry) => entry.action === "login_failed");
    expect(failures).toHaveLength(5);
  });

  it("refuses invalid bodies", async () => {
    for (const payload of [{}, { password: 1 }, { password: "x", user: "y" }, ["x"]]) {
      const response = await api.server.inject({ method: "POST", url: "/api/auth/login", payload });
      expect(response.statusCode).toBe(400);
    }
    const long = await login("x".repeat(20_000));
    expect([long.statusCode, readErrorBody(long)]).toEqual([413, expect.stringContaining("8 KiB")]);
  });
});

describe("named tokens", () => {
  it("are created, listed without their value, used, and revoked by id or by name", async () => {
    const create = (payload: object) =>
      api.request({ method: "POST", url: "/api/auth/tokens", payload });
    const made = await create({ name: "ci", scope: "write", expires_in: "30d" });
    expect(made.statusCode).toBe(201);
    expect(made.json()).toMatchObject({
      name: "ci",
      scope: "write",
      kind: "named",
      expires_at: "2030-01-31T00:00:00.000Z",
    });
    const headers = { authorization: `Bearer ${made.json().token}` };
    expect((await api.server.inject({ url: "/api/apps", headers })).statusCode).toBe(200);
    expect((await create({ name: "ci" })).statusCode).toBe(409);
    const list = await api.request({ url: "/api/auth/tokens" });
    expect(list.body).not.toContain(made.json().token);
    expect(list.json().tokens.map((token: { name: string }) => token.name)).toContain("ci");

    const remove = (id: string) => api.request({ method: "DELETE", url: `/api/auth/tokens/${id}` });
    expect((await remove("ci")).statusCode).toBe(204);
    expect((await api.server.inject({ url: "/api/apps", headers })).statusCode).toBe(401);
    expect((await remove("ci")).statusCode).toBe(404);
    const second = (await create({ name: "second" })).json();
    expect((await remove(second.id)).statusCode).toBe(204);
    expect(api.store.audit.list({ limit: 2 }).map((entry) => entry.action)).toEqual([
      "token_revoke",
      "token_create",
    ]);
  });

  it("require a valid name and a known scope", async () => {
    for (const payload of [
      {},
      { name: "" },
      { name: "a b" },
      { name: "x".repeat(64) },
      { name: "ok", scope: "root" },
      { name: "ok", expires_in: "soon" },
      { name: "ok", expires_in: "0s" },
      { name: "ok", expires_in: "99999999d" },
    ]) {
      const response = await api.request({ method: "POST", url: "/api/auth/tokens", payload });
      expect([payload, response.statusCode]).toEqual([payload, 400]);
    }
  });

  it("are not revoked by logout", async () => {
    const response = await api.request({ method: "POST", url: "/api/auth/logout" });
    expect(response.statusCode).toBe(409);
    expect((await api.request({ url: "/api/apps" })).statusCode).toBe(200);
  });
});

describe("the password", () => {
  it("is generated once, and never stored in plaintext", async () => {
    const made = await ensurePassword(api.store, undefined);
    expect(made).toMatch(/^[a-z2-9]{6}(-[a-z2-9]{6}){3}$/);
    expect(await ensurePassword(api.store, undefined)).toBeUndefined();
    expect(await verifyPassword(api.store.settings, made ?? "")).toBe(true);
    expect(await verifyPassword(api.store.settings, `${made}x`)).toBe(false);
    expect(api.store.settings.get("auth.password")).not.toContain(made);
    expect(api.store.settings.get("auth.password")).toMatch(/^scrypt\$/);
  });

  it("from the environment replaces the stored password, and ends the sessions that began with the stored one", async () => {
    await ensurePassword(api.store, "one");
    const headers = { authorization: `Bearer ${(await login("one")).json().token}` };
    expect(await ensurePassword(api.store, "one")).toBeUndefined();
    expect((await api.server.inject({ url: "/api/apps", headers })).statusCode).toBe(200);
    await ensurePassword(api.store, "two");
    expect((await api.server.inject({ url: "/api/apps", headers })).statusCode).toBe(401);
    expect(await verifyPassword(api.store.settings, "one")).toBe(false);
    expect(await verifyPassword(api.store.settings, "two")).toBe(true);
  });

  it("is refused, whatever its value, while no password is set", async () => {
    expect(await verifyPassword(api.store.settings, "")).toBe(false);
    expect((await login("")).statusCode).toBe(401);
  });
});

describe("the token of this machine", () => {
  it("cannot be revoked through the API, so that the command line of the machine keeps working", async () => {
    const dir = await mkdtemp(join(tmpdir(), "berth-token-"));
    const file = join(dir, "token");
    await writeLocalToken(api.store.tokens, file);
    const id = api.store.tokens.list().find(({ kind }) => kind === "local")?.id;
    const response = await api.request({ method: "DELETE", url: `/api/auth/tokens/${id}` });
    expect(response.statusCode).toBe(409);
    expect(readErrorBody(response)).toContain("local token");
    const authorization = `Bearer ${(await readFile(file, "utf8")).trim()}`;
    await rm(dir, { recursive: true });
    expect((await api.request({ url: "/api/apps", headers: { authorization } })).statusCode).toBe(
      200,
    );
  });

  it("is in a file that only its user can read, and is revoked when the next token is created", async () => {
    const folder = await mkdtemp(join(tmpdir(), "berth-token-"));
    const file = join(folder, "run", "token");
    try {
      await writeLocalToken(api.store.tokens, file);
      expect((await stat(file)).mode & 0o777).toBe(0o600);
      const first = (await readFile(file, "utf8")).trim();
      expect(api.store.tokens.find(first)).toMatchObject({ kind: "local", scope: "admin" });
      await writeLocalToken(api.store.tokens, file);
      const second = (await readFile(file, "utf8")).trim();
      expect(api.store.tokens.find(first)).toBeUndefined();
      expect(api.store.tokens.find(second)).toMatchObject({ kind: "local" });
      expect(await readdir(join(folder, "run"))).toEqual(["token"]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe("the limit of logins", () => {
  it("treats an IPv6 network of 64 bits as one address, and a mapped IPv4 address as that IPv4 address", () => {
    const limiter = new AttemptLimiter(new VirtualClock());
    for (let host = 1; host <= 5; host += 1) fail(limiter, `2001:db8:0:1::${host}`);
    expect(() => limiter.begin("2001:db8:0:1:ffff::9")).toThrow("too many");
    limiter.begin("2001:db8:0:2::1").end(true);
    for (let count = 0; count < 5; count += 1) fail(limiter, "::ffff:10.0.0.1");
    expect(() => limiter.begin("10.0.0.1")).toThrow("too many");
    limiter.begin("::ffff:10.0.0.2").end(true);
  });

  it("allows another attempt when the oldest failed one was a minute ago", async () => {
    const clock = new VirtualClock();
    const limiter = new AttemptLimiter(clock);
    for (let count = 0; count < 5; count += 1) {
      fail(limiter, "10.0.0.1");
      await clock.advance(10_000);
    }
    const refused = expect.objectContaining({ details: { retryAfterSeconds: 10 } });
    expect(() => limiter.begin("10.0.0.1")).toThrow(refused);
    await clock.advance(10_000);
    fail(limiter, "10.0.0.1");
    expect(() => limiter.begin("10.0.0.1")).toThrow(refused);
  });
});
