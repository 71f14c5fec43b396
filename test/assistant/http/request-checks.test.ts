import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type InferenceHttpHarness,
  RawClient,
  rawPost,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";

let world: InferenceHttpHarness;
beforeEach(async () => {
  world = await startInferenceHttp();
});
afterEach(() => world[Symbol.asyncDispose]());

const path = "/v1/chat/completions";
const MIB = 2 ** 20;
const everything =
  "there is /health, /metrics, /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models";

/** The status, headers and body of the answer to a request that the test has written line by line. */
async function raw(lines: readonly string[], body: string | Buffer = "") {
  using client = new RawClient(world.port);
  client.write(`${[...lines, "connection: close"].join("\r\n")}\r\n\r\n`).write(body);
  const [head = "", rest = ""] = (await client.all()).split("\r\n\r\n");
  return { status: Number(head.split(" ")[1]), head: head.toLowerCase(), body: rest };
}

/** Returns a request body of exactly `bytes` bytes. The text of its only message is padded to reach this size. */
function askOf(bytes: number): string {
  const empty = JSON.stringify({ messages: [{ role: "user", content: "" }] });
  return empty.replace('""', `"${"x".repeat(bytes - empty.length)}"`);
}

describe("the Host header", () => {
  test.each([
    "127.0.0.1",
    "127.0.0.1:7777",
    "127.8.9.10:1",
    "localhost",
    "LOCALHOST:7777",
    "localhost.",
    "[::1]",
    "[::1]:7777",
  ])("%s names this machine, and is accepted", async (host) => {
    expect((await raw(["GET /health HTTP/1.1", `host: ${host}`])).status).toBe(200);
  });

  test.each([
    "example.com",
    "localhost.example.com",
    "127.0.0.1.example.com",
    "192.168.1.5:7777",
    "0.0.0.0",
    "[::2]:7777",
    "user@127.0.0.1",
    "127.0.0.1:x",
    "",
  ])("%j does not name this machine, and is refused on any path", async (host) => {
    for (const target of ["/health", "/v1/models", "/metrics", "/nothing"]) {
      const { status, body } = await raw([`GET ${target} HTTP/1.1`, `host: ${host}`]);
      expect(status).toBe(403);
      expect(JSON.parse(body)).toMatchObject({ error: { code: "forbidden" } });
    }
  });

  test("must occur exactly once; otherwise the error has the usual format", async () => {
    for (const lines of [
      ["GET /health HTTP/1.1"],
      ["GET /health HTTP/1.0"],
      ["GET /health HTTP/1.1", "host: localhost", "host: example.com"],
    ]) {
      const { status, body } = await raw(lines);
      expect(status).toBe(403);
      expect(JSON.parse(body)).toMatchObject({ error: { code: "forbidden" } });
    }
  });
});

describe("the Origin header", () => {
  test.each(["http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443"])(
    "the page %s is on this machine and may read the answer",
    async (origin) => {
      const body = { messages: [{ role: "user", content: "hi" }], odd: 1 };
      for (const stream of [false, true]) {
        const response = await world.post(path, { ...body, stream }, { origin });
        expect(response.status).toBe(200);
        expect(response.headers.get("access-control-allow-origin")).toBe(origin);
        expect(response.headers.get("access-control-expose-headers")).toContain("x-berth-ignored");
        expect(response.headers.get("vary")).toBe("origin");
        expect(response.headers.get("x-berth-ignored")).toBe("odd");
        await response.text();
      }
    },
  );

  test.each(["https://example.com", "null", "http://localhost.example.com", "file://", "evil"])(
    "the page %s is not on this machine, and its request has no effect",
    async (origin) => {
      const response = await world.post(path, askOf(100), { origin });
      expect(response.status).toBe(403);
      expect(response.headers.get("access-control-allow-origin")).toBeNull();
      expect(world.service.requests).toEqual([]);
      const preflight = await fetch(`${world.url}${path}`, {
        method: "OPTIONS",
        headers: { origin, "access-control-request-method": "POST" },
      });
      expect(preflight.status).toBe(403);
    },
  );

  test("lets a page of this machine read a refusal too", async () => {
    const response = await world.post(path, "{", { origin: "http://localhost:3000" });
    expect(response.status).toBe(400);
    expect(response.headers.get("access-control-allow-origin")).toBe("http://localhost:3000");
  });

  test("may be that of a preflight, whose response allows the requested method and headers", async () => {
    const response = await fetch(`${world.url}${path}`, {
      method: "OPTIONS",
      headers: {
        origin: "http://localhost:3000",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
        "access-control-request-private-network": "true",
      },
    });
    expect(response.status).toBe(204);
    const header = (name: string) => response.headers.get(`access-control-${name}`);
    expect(header("allow-origin")).toBe("http://localhost:3000");
    expect(header("allow-methods")).toBe("OPTIONS, POST");
    expect(header("allow-headers")).toBe("authorization,content-type,x-stainless-os");
    expect(header("allow-private-network")).toBe("true");
  });
});

describe("paths and methods", () => {
  test.each([
    ["GET", path, "OPTIONS, POST"],
    ["HEAD", path, "OPTIONS, POST"],
    ["DELETE", "/v1/models/tiny", "GET, HEAD, OPTIONS"],
    ["POST", "/health", "GET, HEAD, OPTIONS"],
    ["PUT", "//v1/models/", "GET, HEAD, OPTIONS"],
    ["PROPFIND", "/metrics", "GET, HEAD, OPTIONS"],
  ])(
    "%s %s is refused with 405, and Allow lists the methods of the path",
    async (method, target, allow) => {
      const { status, head } = await raw([`${method} ${target} HTTP/1.1`, "host: localhost"]);
      expect(status).toBe(405);
      expect(head).toContain(`allow: ${allow.toLowerCase()}`);
    },
  );

  test.each([
    "/",
    "/v1",
    "/v1/chat",
    "/v2/model",
    "/V1/chat/completion",
    "/v1/embeddings/x",
    "/health/x",
  ])("%s is refused with 404, and the error lists the paths", async (target) => {
    const response = await world.post(target, "no JSON", { "content-type": "text/plain" });
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({
      error: {
        message: `there is nothing at ${JSON.stringify(target)}: ${everything}`,
        type: "invalid_request_error",
        param: null,
        code: "not_found",
      },
    });
  });

  test.each([
    ["/chat/completions", "it is at /v1/chat/completions; the base URL of a client ends in /v1"],
    ["/v1/v1/embeddings/", "it is at /v1/embeddings; the base URL of a client ends in /v1"],
    [
      "/v1/completions/completions",
      "it is at /v1/completions; the base URL of a client ends in /v1",
    ],
    ["/V1/models", "it is at /v1/models; the base URL of a client ends in /v1"],
    ["/models?limit=5", "it is at /v1/models; the base URL of a client ends in /v1"],
    ["/v1/responses", "there is no Responses API here; set the client to chat completions"],
    ["/api/chat", "this is not Ollama's API; use a client for OpenAI's API"],
  ])(
    "a request for %s gets a 404 that names the right path or says that there is none",
    async (target, instead) => {
      const response = await world.post(target, {});
      expect(response.status).toBe(404);
      const body = JSON.stringify(await response.json());
      expect(body).toContain(`: ${instead}`);
    },
  );

  test("HEAD gets the response of GET without the body", async () => {
    for (const target of ["/health", "/v1/models", "/v1/models/tiny", "/metrics"]) {
      const response = await fetch(`${world.url}${target}`, { method: "HEAD" });
      expect([response.status, await response.text()]).toEqual([200, ""]);
    }
  });

  test("OPTIONS without an Origin header returns the methods of the path", async () => {
    const response = await fetch(`${world.url}/v1/models`, { method: "OPTIONS" });
    expect([response.status, response.headers.get("allow")]).toEqual([204, "GET, HEAD, OPTIONS"]);
    const all = await raw(["OPTIONS * HTTP/1.1", "host: localhost"]);
    expect(all.head).toContain("allow: get, head, options, post");
    expect((await fetch(`${world.url}/nothing`, { method: "OPTIONS" })).status).toBe(404);
  });

  test("a path with an invalid escape sequence is refused", async () => {
    const { status, body } = await raw(["GET /v1/models/%zz HTTP/1.1", "host: localhost"]);
    expect([status, JSON.parse(body).error.code]).toEqual([400, "invalid_request"]);
  });

  test("the id that a request carries is returned, or replaced if it is not safe for a log", async () => {
    const own = await fetch(`${world.url}/health`, { headers: { "x-request-id": "a-1.b" } });
    expect(own.headers.get("x-request-id")).toBe("a-1.b");
    const odd = await fetch(`${world.url}/health`, { headers: { "x-request-id": "a b" } });
    expect(odd.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe("a request body", () => {
  test("of 4 MiB is accepted, a larger one is refused, and the connection stays open", async () => {
    const whole = await world.post(path, askOf(4 * MIB));
    expect(whole.status).toBe(200);
    using client = new RawClient(world.port);
    client.write(rawPost(path, askOf(4 * MIB + 1)));
    const text = await client.until((all) => all.endsWith("}}"));
    expect(text).toMatch(/^HTTP\/1\.1 413 /);
    expect(JSON.parse(text.split("\r\n\r\n")[1] ?? "")).toMatchObject({
      error: { type: "invalid_request_error", code: "payload_too_large" },
    });
    client.write(rawPost(path, askOf(100)));
    await client.until((all) => all.includes('"Hello there"'));
    expect(world.service.requests).toHaveLength(2);
  });

  test("in chunks is refused if it is too large", async () => {
    const response = await fetch(`${world.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: new Blob([askOf(5 * MIB)]).stream(),
      duplex: "half",
    });
    expect(response.status).toBe(413);
  });

  test.each([
    ["text/plain"],
    ["application/x-www-form-urlencoded"],
    ["multipart/form-data; boundary=x"],
    ["application/json; charset=utf-16"],
    ["json"],
  ])("of type %s is refused with 415", async (type) => {
    const response = await world.post(path, askOf(100), { "content-type": type });
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ error: { code: "unsupported_media_type" } });
  });

  test("without a type, or with a compression, is refused with 415", async () => {
    const body = askOf(100);
    const lines = [`POST ${path} HTTP/1.1`, "host: localhost", `content-length: ${body.length}`];
    const untyped = await raw(lines, body);
    expect(untyped.status).toBe(415);
    expect(untyped.body).toContain("send it with the header content-type: application/json");
    const packed = await world.post(path, body, { "content-encoding": "gzip" });
    expect(packed.status).toBe(415);
    expect(world.service.requests).toEqual([]);
  });

  test.each<[string, string | Buffer, string]>([
    ["is no JSON", '{"messages": [', "the body is not JSON"],
    ["has a comma too many", '{"model": "a",}', "the body is not JSON: line 1, column 15"],
    ["is not UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), "the body is not UTF-8"],
    ["has a key twice", '{"n": 1, "n": 2}', 'the key "n" occurs twice in one object'],
    ["has an escaped key twice", '{"n": 1, "\\u006e": 2}', 'the key "n" occurs twice'],
    ["reaches a prototype", '{"__proto__": {"n": 1}}', 'the key "__proto__" is not allowed'],
    ["is nested too deep", `${"[".repeat(300)}${"]".repeat(300)}`, "nested deeper than 256 levels"],
    ["is an array", "[]", "the body has to be a JSON object"],
    ["is null", "null", "the body has to be a JSON object"],
    ["is empty", "", "the request needs a body"],
  ])("is refused if it %s", async (_, body, message) => {
    for (const target of [path, "/v1/completions", "/v1/embeddings"]) {
      using client = new RawClient(world.port);
      client.write(rawPost(target, body, { connection: "close" }));
      const answer = JSON.parse((await client.all()).split("\r\n\r\n")[1] ?? "");
      expect(answer).toMatchObject({
        error: { code: "invalid_request", message: expect.stringContaining(message) },
      });
    }
    expect(world.service.requests).toEqual([]);
  });

  test("that is refused is not quoted in the answer", async () => {
    const response = await world.post(path, '{"messages": "my secret" oops}');
    expect(await response.text()).not.toContain("secret");
  });
});
