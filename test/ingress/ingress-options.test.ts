import { existsSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { IngressOptions } from "../../src/resources/app-ingress-spec.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import { type Backend, startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";

/** Tests of the Apps' options for the ingress, with the real Caddy. */

let harness: CaddyHarness;
let one: Backend;
let two: Backend;

beforeAll(async () => {
  harness = await CaddyHarness.open();
  one = await startBackend("one");
  two = await startBackend("two");
  await harness.waitUntilReady();
});
afterAll(async () => {
  await harness[Symbol.asyncDispose]();
  await one[Symbol.asyncDispose]();
  await two[Symbol.asyncDispose]();
});

async function addApp(
  name: string,
  ingress: IngressOptions = {},
  spec: Partial<AppSpec> = {},
  target = one.target,
): Promise<string> {
  harness.apply(name, { ...spec, ingress });
  await harness.waitForVerdict(name);
  await harness.ingress.table.write(name, { version: "v1", targets: [target] });
  return spec.domain ?? `${name}.localhost`;
}

async function bodyOf(path: string): Promise<string> {
  return (await harness.get("shared.test", path)).body;
}

const basic = (user: string, password: string) => ({
  Authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`,
});

describe("requests to a host", () => {
  it("of no App are answered with 404 and a page", async () => {
    const answer = await harness.get("nobody.localhost");
    expect(answer.status).toBe(404);
    expect(answer.headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(answer.body).toContain("There is no app at this address");
  });

  it("of an App with `domain: none` are answered with 404, even if the host was its domain before", async () => {
    const host = await addApp("private");
    expect((await harness.get(host)).body).toBe("one");
    // Caddy looks for this entry of the host in the route table at each request.
    const entry = join(harness.dataDir, "ingress", "table", "hosts", host);
    const early: string[] = [];
    harness.onChanged = () => {
      const verdict = harness.getVerdict("private");
      if (verdict?.served === false && verdict.reason === "NoDomain" && existsSync(entry))
        early.push(verdict.message);
    };
    expect(existsSync(entry)).toBe(true);
    harness.apply("private", { domain: "none" });
    await harness.waitForVerdict("private", "NoDomain");
    harness.onChanged = () => {};
    expect(early).toEqual([]);
    expect((await harness.get(host)).status).toBe(404);
    expect((await harness.get("none")).status).toBe(404);
    // The route table keeps the targets of an App without a domain, so that the App can be served when it gets one.
    expect(await harness.ingress.table.read("private")).toMatchObject({ targets: [one.target] });
    harness.apply("private");
    await harness.waitForVerdict("private");
    expect((await harness.get(host)).body).toBe("one");
  });

  it("of a stopped App are answered with 503 and Retry-After", async () => {
    const host = await addApp("stopped");
    await harness.ingress.table.write("stopped", { version: "v1", targets: [] });
    const answer = await harness.get(host);
    expect(answer.status).toBe(503);
    expect(answer.headers["retry-after"]).toBe("5");
    expect(answer.body).toContain("The app is stopped");
  });

  it.each([
    "*",
    "*.localhost",
    "..",
    ".",
    "../apps/host",
    "host.localhost..",
    "HOST.localhost..",
    "[a-z]*",
    "h?st.localhost",
  ])('such as "%s" reach no App', async (odd) => {
    await addApp("host");
    const status = await new Promise<string>((resolve, reject) => {
      const socket = connect(harness.httpPort, "127.0.0.1", () =>
        socket.write(`GET / HTTP/1.1\r\nHost: ${odd}\r\nConnection: close\r\n\r\n`),
      );
      socket.once("error", reject);
      socket.once("data", (chunk: Buffer) => {
        resolve(chunk.toString().split(" ")[1] ?? "");
        socket.destroy();
      });
    });
    expect(["400", "404"]).toContain(status);
  });

  it("in upper case or with a trailing dot reach the App, which gets the normalised host", async () => {
    await addApp("spelt");
    await addApp("spelt-api", { pathPrefix: "/in" });
    for (const host of ["Spelt.LocalHost", "spelt.localhost.", "SPELT.localhost.:80"])
      expect((await harness.get(host)).body).toBe("one");
    expect(one.seen.at(-1)?.headers).toMatchObject({
      host: "spelt.localhost:80",
      "x-forwarded-host": "spelt.localhost:80",
    });
    expect((await harness.get("Spelt-API.localhost.", "/in")).body).toBe("one");
    expect((await harness.get("Nobody.localhost")).status).toBe(404);
  });

  it("that is any of the domains of an App reach that App", async () => {
    await addApp("names", { domains: ["names.test", "www.names.test"] });
    for (const host of ["names.localhost", "names.test", "www.names.test"])
      expect((await harness.get(host)).body).toBe("one");
  });

  it("below a wildcard domain reach its App, unless the host is the domain of another App", async () => {
    await addApp("tree", { domains: ["*.tree.test"] });
    await addApp("leaf", {}, { domain: "leaf.tree.test" }, two.target);
    expect((await harness.get("any.tree.test")).body).toBe("one");
    expect((await harness.get("leaf.tree.test")).body).toBe("two");
    expect((await harness.get("tree.test")).status).toBe(404);
  });

  it("reach the App at its new domain, and not at its old one, after a change of its spec", async () => {
    await addApp("moving", {}, { domain: "old.moving.test" });
    expect((await harness.get("old.moving.test")).body).toBe("one");
    harness.apply("moving", { domain: "new.moving.test" });
    await harness.waitUntil(
      async () => (await harness.get("new.moving.test")).body === "one",
      () => "the new domain does not lead anywhere",
    );
    await harness.waitUntil(
      async () => (await harness.get("old.moving.test")).status === 404,
      () => "the old domain still leads somewhere",
    );
  });
});

describe("a domain of two Apps", () => {
  it("belongs to the older App, and to the other one after its deletion", async () => {
    const host = await addApp("first", {}, { domain: "wanted.test" });
    harness.apply("second", { domain: "wanted.test" });
    const verdict = await harness.waitForVerdict("second", "DomainTaken");
    expect(verdict).toMatchObject({ message: expect.stringContaining("wanted.test") });
    expect(verdict).toMatchObject({ message: expect.stringContaining("first") });
    await harness.ingress.table.write("second", { version: "v1", targets: [two.target] });
    expect((await harness.get(host)).body).toBe("one");
    harness.changed.length = 0;
    harness.delete("first");
    await harness.waitForVerdict("second");
    expect(harness.changed).toContain("second");
    expect((await harness.get(host)).body).toBe("two");
  });

  it("can serve both, each below its own path prefix; the longest matching prefix wins", async () => {
    await addApp("site", {}, { domain: "shared.test" });
    await addApp("api", { pathPrefix: "/api" }, { domain: "shared.test" }, two.target);
    const deep = await startBackend("deep");
    await addApp("deep", { pathPrefix: "/api/v2" }, { domain: "shared.test" }, deep.target);
    expect(await bodyOf("/")).toBe("one");
    expect(await bodyOf("/apiary")).toBe("one");
    expect(await bodyOf("/api")).toBe("two");
    expect(await bodyOf("/api/x?y=1")).toBe("two");
    expect(await bodyOf("/api/v2/x")).toBe("deep");
    await deep[Symbol.asyncDispose]();
  });
});

describe("a host that an App redirects", () => {
  it("cannot have paths of another App, and the status of that other App has the reason", async () => {
    await addApp("sender", { redirects: [{ from: "sent.test", to: "https://new.test" }] });
    harness.apply("below", { domain: "sent.test", ingress: { pathPrefix: "/api" } });
    expect(await harness.waitForVerdict("below", "DomainTaken")).toMatchObject({
      message: expect.stringContaining("the app sender"),
    });
    expect((await harness.get("sent.test", "/api")).headers.location).toBe("https://new.test/api");
  });
});

describe("a path prefix", () => {
  it("limits the App to the paths below it", async () => {
    const host = await addApp("prefixed", { pathPrefix: "/in" });
    expect((await harness.get(host, "/in/here?a=b")).body).toBe("one");
    expect(one.seen.at(-1)).toMatchObject({ url: "/in/here?a=b" });
    expect((await harness.get(host, "/")).status).toBe(404);
    expect((await harness.get(host, "/inner")).status).toBe(404);
  });

  it("is removed from the path of each request if the App sets stripPrefix, and the App gets it in a header", async () => {
    const host = await addApp("stripped", { pathPrefix: "/in.here", stripPrefix: true });
    expect((await harness.get(host, "/in.here/x?a=b")).body).toBe("one");
    expect(one.seen.at(-1)).toMatchObject({
      url: "/x?a=b",
      headers: { "x-forwarded-prefix": "/in.here" },
    });
    expect((await harness.get(host, "/in.here")).body).toBe("one");
    expect(one.seen.at(-1)?.url).toBe("/");
    expect((await harness.get(host, "/inXhere/x")).status).toBe(404);
  });

  it("with Caddy's special characters is matched literally", async () => {
    const host = await addApp("braces", { pathPrefix: "/a{http.request.host}[b]" });
    expect((await harness.get(host, "/a%7Bhttp.request.host%7D%5Bb%5D/x")).body).toBe("one");
    expect((await harness.get(host, `/a${host}b/x`)).status).toBe(404);
  });
});

describe("redirects of an App", () => {
  it("send the client to the App's own domain, with path and query", async () => {
    await addApp("own", { redirects: [{ from: "www.own.test" }] }, { domain: "own.test" });
    const answer = await harness.get("www.own.test", "/a/b?c=d&e=%20f");
    expect(answer.status).toBe(307);
    expect(answer.headers.location).toBe(`http://own.test:${harness.httpPort}/a/b?c=d&e=%20f`);
    expect((await harness.get("own.test")).body).toBe("one");
  });

  it("send the client permanently to another domain", async () => {
    await addApp("left", {
      redirects: [{ from: "left.test", to: "https://new.test/at/{env.HOME}/", permanent: true }],
    });
    const answer = await harness.get("left.test", "/x?y");
    expect(answer.status).toBe(308);
    expect(answer.headers.location).toBe("https://new.test/at/{env.HOME}/x?y");
  });

  it("to themselves are refused, and the App is not served", async () => {
    harness.apply("circle", { ingress: { redirects: [{ from: "circle.localhost" }] } });
    expect(await harness.waitForVerdict("circle", "RedirectLoop")).toMatchObject({
      message: expect.stringContaining("circle.localhost"),
    });
    expect((await harness.get("circle.localhost")).status).toBe(404);
  });
});

describe("the maintenance mode of an App", () => {
  it("shows a page instead of the App while it is on, and the App again afterwards", async () => {
    const host = await addApp("shop");
    harness.apply("shop", { ingress: { maintenance: { message: "Back at <8>, {env.HOME}" } } });
    await harness.waitUntil(
      async () => (await harness.get(host)).status === 503,
      () => "no maintenance",
    );
    const answer = await harness.get(host, "/any");
    expect(answer.headers["retry-after"]).toBe("120");
    expect(answer.body).toContain("Back at &lt;8&gt;, {env.HOME}");
    harness.apply("shop");
    await harness.waitUntil(
      async () => (await harness.get(host)).status === 200,
      () => "still in maintenance",
    );
  });

  it("shows a custom page unchanged", async () => {
    const html = "<style>b{color:red}</style>{http.request.host} \\{x\\} {{y}} \\\\{env.HOME}";
    const host = await addApp("page", { maintenance: { html } });
    expect((await harness.get(host)).body).toBe(html);
    await addApp("plainly", { maintenance: true });
    expect((await harness.get("plainly.localhost")).body).toContain("under maintenance");
  });
});

describe("basic authentication of an App", () => {
  it("allows the users in the Secret, and follows its changes", async () => {
    harness.applySecret("people", { ann: "secret-1", "b.o_b": "pä:ss" });
    const host = await addApp("closed", { basicAuth: { secret: "people" } });
    const bare = await harness.get(host);
    expect(bare.status).toBe(401);
    expect(bare.headers["www-authenticate"]).toMatch(/^Basic realm=/);
    expect((await harness.get(host, "/", basic("ann", "secret-1"))).body).toBe("one");
    expect((await harness.get(host, "/", basic("b.o_b", "pä:ss"))).body).toBe("one");
    expect((await harness.get(host, "/", basic("ann", "wrong"))).status).toBe(401);
    expect((await harness.get(host, "/", basic("eve", "secret-1"))).status).toBe(401);
    harness.applySecret("people", { ann: "secret-2" });
    await harness.waitUntil(
      async () => (await harness.get(host, "/", basic("ann", "secret-2"))).status === 200,
      () => "the new password is not known",
    );
    expect((await harness.get(host, "/", basic("ann", "secret-1"))).status).toBe(401);
  });

  it("whose Secret is missing makes no other App unavailable", async () => {
    const host = await addApp("open");
    harness.apply("locked", { ingress: { basicAuth: { secret: "missing" } } });
    const verdict = await harness.waitForVerdict("locked", "SecretNotFound");
    expect(verdict).toMatchObject({ message: expect.stringContaining("missing") });
    await harness.ingress.table.write("locked", { version: "v1", targets: [one.target] });
    expect((await harness.get("locked.localhost")).status).toBe(404);
    expect((await harness.get(host)).body).toBe("one");
    harness.applySecret("missing", { ann: "secret" });
    await harness.waitForVerdict("locked");
    expect((await harness.get("locked.localhost")).status).toBe(401);
  });

  it("refuses a password of which bcrypt would ignore the end, and accepts one of 72 bytes", async () => {
    harness.applySecret("lengthy", { ann: "ä".repeat(36), bob: `${"ä".repeat(36)}x` });
    harness.apply("strict", { ingress: { basicAuth: { secret: "lengthy" } } });
    const verdict = await harness.waitForVerdict("strict", "SecretInvalid");
    expect(verdict).toMatchObject({ message: expect.stringMatching(/user bob .* 72 bytes/) });
    harness.applySecret("lengthy", { ann: "ä".repeat(36) });
    await harness.waitForVerdict("strict");
  });

  it("makes a public App unavailable if its Secret is missing", async () => {
    const host = await addApp("closing");
    harness.apply("closing", { ingress: { basicAuth: { secret: "nowhere" } } });
    await harness.waitForVerdict("closing", "SecretNotFound");
    await expect.poll(async () => (await harness.get(host)).status).toBe(404);
  });
});

describe("requests to an App through the ingress", () => {
  it("carry the client's real address instead of the forwarding headers that the client has sent", async () => {
    const host = await addApp("headers");
    await harness.get(host, "/", {
      "X-Forwarded-For": "1.2.3.4",
      "X-Forwarded-Proto": "https",
      "X-Forwarded-Host": "evil.test",
      "X-Forwarded-Prefix": "/evil",
      "X-Real-Ip": "1.2.3.4",
      Forwarded: "for=1.2.3.4",
    });
    const { headers } = one.seen.at(-1) ?? {};
    expect(headers).toMatchObject({
      host,
      "x-forwarded-for": "127.0.0.1",
      "x-forwarded-proto": "http",
      "x-forwarded-host": host,
      "x-real-ip": "127.0.0.1",
    });
    expect(headers).not.toHaveProperty("forwarded");
    expect(headers).not.toHaveProperty("x-forwarded-prefix");
  });

  it("may have large bodies", async () => {
    const host = await addApp("upload");
    const body = Buffer.alloc(50 * 1024 * 1024, "x");
    const answer = await harness.send({ host, path: "/upload", method: "POST", body });
    expect(answer.body).toBe(String(body.length));
  });

  it.each([
    ["/events", "data: one\n\n"],
    ["/trickle", '{"from":"one"}\n'],
  ])("to the path %s get each part of a slow response without delay", async (path, first) => {
    const host = await addApp("stream");
    const text = await new Promise<string>((resolve, reject) => {
      const socket = connect(harness.httpPort, "127.0.0.1", () =>
        socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`),
      );
      let got = "";
      socket.on("data", (chunk: Buffer) => {
        got += chunk.toString();
        if (!got.includes(first)) return;
        resolve(got);
        socket.destroy();
      });
      socket.once("error", reject);
    });
    expect(text).toContain("200 OK");
  });
});

describe("an App without a port", () => {
  it("is not served, and does not claim its name", async () => {
    harness.store.apply({
      kind: "App",
      name: "worker",
      manager: "api",
      actor: { name: "test" },
      mode: "replace",
      spec: { image: "web:1" },
    });
    expect(await harness.waitForVerdict("worker", "NoPort")).toMatchObject({
      message: expect.stringContaining("spec.port"),
    });
    expect((await harness.get("worker.localhost")).status).toBe(404);
    await addApp("other", {}, { domain: "worker.localhost" });
    expect((await harness.get("worker.localhost")).body).toBe("one");
  });
});
