import { connect } from "node:net";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseRequestJson } from "../../../src/api/request-json.ts";
import { openTestApi, putApp, readErrorBody, type TestApi } from "../../support/api-harness.ts";

let api: TestApi;
let base: string;
beforeAll(async () => {
  api = await openTestApi();
  base = await api.listen();
  putApp(api.store, "web");
});
afterAll(() => api[Symbol.asyncDispose]());

const post = (url: string, payload: string | Buffer, type = "application/json") =>
  api.request({ method: "POST", url, payload, headers: { "content-type": type } });

const codeOf = async (url: string, payload: object) =>
  (await post(url, JSON.stringify(payload))).headers["x-error-code"];

const send = (text: string) =>
  new Promise<string>((resolve, reject) => {
    const { port, hostname } = new URL(base);
    const socket = connect(Number(port), hostname, () => socket.write(text));
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk.toString();
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
  });

async function echoedId(header: string) {
  const headers = { "x-request-id": header };
  return (await api.request({ url: "/api/health", headers })).headers["x-request-id"];
}

describe("parameters of API requests", () => {
  it("that an operation does not declare are refused as an invalid request, by every operation", async () => {
    const document: { paths: Record<string, Record<string, object>> } = (
      await api.request({ url: "/api/openapi.json" })
    ).json();
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ path, method })),
    );
    expect(operations.length).toBeGreaterThan(60);
    for (const { path, method } of operations) {
      const url = path.replaceAll(/\{[^}]+\}/g, "web");
      const response = await api.server.inject({
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a method of the document
        method: method.toUpperCase() as "GET",
        url: `${url}?no_such_parameter=1`,
        headers: { authorization: `Bearer ${api.token("admin")}` },
      });
      expect([method, path, response.statusCode, response.headers["x-error-code"]]).toEqual([
        method,
        path,
        400,
        "invalid_request",
      ]);
    }
  });

  it.each([
    ["of a wrong type", "/api/apps/web/logs?tail=many", "in the query: tail"],
    ["out of range", "/api/events?limit=0", "in the query: limit"],
    ["of an unknown value", "/api/events?kind=Pod", "in the query: kind"],
    ["of a wrong format", "/api/apps/web?wait=true&timeout=soon", "in the query: timeout"],
    ["in the path", "/api/apps/web/builds/x", "x"],
    ["in the path, of a wrong kind", "/api/resources/Pod/web", "Pod"],
  ])(
    "are refused with invalid_request or not_found if they are invalid: parameters %s",
    async (_what, url, message) => {
      const response = await api.request({ url });
      expect(response.headers["x-error-code"]).toMatch(/^(invalid_request|not_found)$/);
      expect(readErrorBody(response)).toContain(message);
    },
  );
});

describe("bodies of API requests", () => {
  it.each([
    ["half of an object", '{"name":', 400, "not JSON"],
    ["something after the end", '{"name":"a"} x', 400, "not JSON"],
    ["single quotes", "{'name':'a'}", 400, "not JSON"],
    ["a list", "[]", 400, "expected an object"],
    ["text", '"web"', 400, "expected an object"],
    ["null", "null", 400, "needs a JSON body"],
    ["nothing", "", 400, "needs a JSON body"],
    ["a duplicate key", '{"name":"a","image":"x","name":"b"}', 400, '"name" occurs twice'],
    ["a duplicate key, escaped", '{"name":"a","n\\u0061me":"b"}', 400, "occurs twice"],
    ["a duplicate key in a nested object", '{"name":"a","env":{"A":"1","A":"2"}}', 400, '"A"'],
    ["__proto__", '{"name":"a","__proto__":{"image":"x"}}', 400, "__proto__"],
    ["constructor", '{"name":"a","env":{"constructor":"x"}}', 400, "constructor"],
    ["nested too deep", `${"[".repeat(70)}${"]".repeat(70)}`, 400, "deeper than 64"],
    ["half a million brackets", "[".repeat(500_000), 400, "deeper than 64"],
    ["a number that JSON has not", '{"name":"a","port":NaN}', 400, "not JSON"],
    ["a number too large", '{"name":"a","image":"x","port":1e400}', 400, "port"],
    ["a fraction", '{"name":"a","image":"x","port":80.5}', 400, "port"],
    ["10 MB", JSON.stringify({ name: "a", image: "x".repeat(10_000_000) }), 413, "1 MiB"],
  ])("with %s are refused", async (_what, payload, status, message) => {
    const response = await post("/api/apps", payload);
    expect(response.statusCode).toBe(status);
    expect(readErrorBody(response)).toContain(message);
    expect(response.headers["x-request-id"]).toBeTruthy();
    expect(response.headers["x-error-code"]).toMatch(
      status === 413 ? /^payload_too_large$/ : /^invalid_(request|spec)$/,
    );
  });

  it("are refused as an invalid request if they do not match the schema, and as an invalid spec if the spec is wrong", async () => {
    expect(await codeOf("/api/auth/login", { password: 1 })).toBe("invalid_request");
    expect(await codeOf("/api/apps/web/rollback", { revision: "x" })).toBe("invalid_request");
    expect(await codeOf("/api/webhooks", { url: "http://a.test", evnts: [] })).toBe(
      "invalid_request",
    );
    const app = { name: "a", image: "bb:1" };
    expect(await codeOf("/api/apps", { ...app, port: "x" })).toBe("invalid_spec");
  });

  it("that are not UTF-8 are refused, but a byte order mark is accepted", async () => {
    const broken = Buffer.concat([
      Buffer.from('{"name":"'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('"}'),
    ]);
    expect(readErrorBody(await post("/api/apps", broken))).toBe("the body is not UTF-8");
    const lone = await post("/api/apps", Buffer.from('{"name":"\xed\xa0\x80"}', "latin1"));
    expect(lone.statusCode).toBe(400);
    const marked = Buffer.from(`\uFEFF${JSON.stringify({ image: "bb:1" })}`);
    expect((await post("/api/apps/web/deploy", marked)).statusCode).toBe(202);
  });

  it("of an unsupported content type return 415", async () => {
    for (const type of [
      "text/plain",
      "application/xml",
      "application/x-www-form-urlencoded",
      "application/jsonx",
    ]) {
      const response = await post("/api/apps", "name=a", type);
      expect([type, response.statusCode]).toEqual([type, 415]);
      expect(readErrorBody(response)).toContain("application/json");
      expect(response.headers["x-error-code"]).toBe("unsupported_media_type");
    }
    const untyped = await api.request({
      method: "POST",
      url: "/api/apps",
      payload: Buffer.from("{}"),
      headers: { "content-type": "" },
    });
    expect(untyped.statusCode).toBe(415);
  });

  it("that cannot be parsed are not quoted in the error", async () => {
    const response = await post("/api/secrets", '{"name":"s","data":{"key":"hunter2" oops}}');
    expect(response.statusCode).toBe(400);
    expect(response.body).not.toContain("hunter2");
  });

  it("that are too large get their response even while the client still sends", async () => {
    const response = await fetch(`${base}/api/apps`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: `Bearer ${api.token("admin")}`,
      },
      body: "x".repeat(10_000_000),
    });
    expect(response.status).toBe(413);
    expect(await response.json()).toEqual({ error: expect.stringContaining("1 MiB") });
  });

  it("are not read if the request has no token", async () => {
    const response = await api.server.inject({
      method: "POST",
      url: "/api/apps",
      headers: { "content-type": "application/json" },
      payload: "{",
    });
    expect(response.statusCode).toBe(401);
  });
});

describe("names and paths in API requests", () => {
  it.each([
    ["/api/apps/..%2f..%2fetc%2fpasswd", 404],
    ["/api/apps/%2e%2e", 404],
    ["/api/apps/web%00", 404],
    ["/api/apps/web%0d%0aX-Evil:1", 404],
    ["/api/apps/WEB", 404],
    ["/api/apps/%ff%fe", 400],
    ["/api/apps/%zz", 400],
    ["/api/apps/%", 400],
    [`/api/apps/${"a".repeat(64)}`, 404],
    [`/api/apps/${"a".repeat(5000)}`, 404],
    ["/api/apps/__proto__", 404],
    ["/api/apps/constructor", 404],
    ["/api/apps/web'--", 404],
    ["/api/apps//web", 404],
    ["/api/nothing", 404],
    ["/", 404],
    ["/api/resources/app/..%2fx", 404],
    ["/api/resources/toString", 404],
    ["/api/templates/..%2f..%2fpackage.json", 404],
    ["/api/secrets/%00", 404],
    ["/api/docs/static/..%2f..%2fpackage.json", 404],
  ])("that are not valid are refused, such as the URL %s", async (url, status) => {
    const response = await api.request({ url });
    expect(response.statusCode).toBe(status);
    expect(readErrorBody(response)).not.toMatch(/node_modules|\/work|at .*\.ts|Error:/);
    expect(response.headers["x-request-id"]).toBeTruthy();
    expect(response.headers["x-evil"]).toBeUndefined();
    expect(response.headers["x-error-code"]).toBe(status === 404 ? "not_found" : "invalid_request");
  });

  it.each([
    ["PUT", "/api/apps/web", "DELETE, GET, PATCH"],
    ["PUT", "/api/apps", "GET, POST"],
    ["PUT", "/api/apps/from-template", "POST"],
    ["GET", "/api/apps/web/restart", "POST"],
    ["OPTIONS", "/api/llm/start", "POST"],
    ["DELETE", "/api/docs/static/logo.svg", "GET"],
  ] as const)(
    "get the list of supported methods for a wrong method: %s %s is answered with %s",
    async (method, url, methods) => {
      const response = await api.request({ method, url });
      expect(response.statusCode).toBe(405);
      expect(response.headers).toMatchObject({
        allow: methods,
        "x-error-code": "method_not_allowed",
      });
      expect(readErrorBody(response)).toContain(`it accepts ${methods}`);
    },
  );

  it("that do not exist get a response without a list of allowed methods", async () => {
    const response = await api.request({ url: "/api/docs/static/nothing.js" });
    expect(response.statusCode).toBe(404);
    expect(response.headers["allow"]).toBeUndefined();
  });

  it.each([
    "",
    "a".repeat(64),
    "-a",
    "a-",
    "A",
    "a_b",
    "a.b",
    "a/b",
    "../a",
    "a\u0000",
    "ü",
    "a b",
    "a\n",
  ])("a new app cannot be called %j", async (name) => {
    const response = await api.request({
      method: "POST",
      url: "/api/apps",
      payload: { name, image: "bb:1" },
    });
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toMatch(/^name: /);
  });
});

describe("queries of API requests", () => {
  it.each([
    ["/api/apps?limt=1", 'unknown key "limt"; did you mean "limit"?'],
    ["/api/apps?limit=0", "limit"],
    ["/api/apps?limit=ten", "limit"],
    ["/api/apps?limit=1&limit=2", "limit"],
    ["/api/apps?offset=-1", "offset"],
    ["/api/apps?status=Running", '"running", "completed", "degraded"'],
    ["/api/apps?status=Running", 'did you mean "running"?'],
    ["/api/apps/web?wait=maybe", 'wait: expected "true", "false" or "deleted", found "maybe"'],
    ["/api/apps/web?timeout=soon", "timeout: expected a duration to wait, such as 30s"],
    ["/api/apps/web?timeout=5m", "timeout: 5m is longer than 4m"],
    ["/api/llm/models/x?timeout=5m", "timeout: 5m is longer than 4m"],
    ["/api/apps/web/logs?tail=0", "tail"],
    ["/api/apps/web/logs?tail=10001", "tail"],
    ["/api/apps/web/logs?tail=1.5", "tail"],
    ["/api/apps/web/logs?since=yesterday", "since"],
    ["/api/events?kind=Apps", '"App", "Model", "Template" or "Secret"'],
    ["/api/events?format=xml", "format"],
    ["/api/audit?before=0", "before"],
    ["/api/health?x=1", 'unknown key "x"'],
    ["/api/apps?__proto__=1", "__proto__"],
  ])("that are not valid are refused, such as %s", async (url, message) => {
    const response = await api.request({ url });
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toContain(message);
  });
});

it.each([
  ["POST", "/api/apps?timeout=soon", { name: "x", image: "bb:1" }],
  ["POST", "/api/apps/web/stop?timeout=5m", undefined],
  ["POST", "/api/apps/web/deploy?timeout=5m", { image: "bb:2" }],
  ["DELETE", "/api/apps/web?timeout=1", undefined],
  ["POST", "/api/llm/stop?timeout=5m", undefined],
  ["POST", "/api/apply?timeout=5m", { manifests: [{}] }],
] as const)(
  "the request %s %s writes nothing, because the timeout in its query is invalid",
  async (method, url, payload) => {
    const before = api.store.lastSequence;
    const response = await api.request({ method, url, ...(payload && { payload }) });
    expect(response.statusCode).toBe(400);
    expect(readErrorBody(response)).toContain("timeout");
    expect(api.store.lastSequence).toBe(before);
  },
);

describe("requests that are not valid HTTP", () => {
  it("get a response in the usual format", async () => {
    const [head = "", body = ""] = (await send("HELLO\r\n\r\n")).split("\r\n\r\n");
    expect(head).toContain("HTTP/1.1 400");
    expect(head).toContain("X-Error-Code: invalid_request");
    expect(JSON.parse(body)).toEqual({ error: "the request is not valid HTTP" });
  });

  it.each([
    ["without a Host header", "GET /api/health HTTP/1.1\r\nConnection: close\r\n\r\n"],
    [
      "with two Host headers",
      "GET /api/health HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
    ],
  ])("get a response in the usual format if they are sent %s", async (_what, text) => {
    const answer = await send(text);
    expect(answer).toContain("HTTP/1.1 400");
    expect(answer).toContain("x-error-code: invalid_request");
    expect(answer).toContain('{"error":"the request needs one Host header"}');
  });

  it("a request of HTTP 1.0 without a Host header is accepted, and so is one with an unknown Expect header", async () => {
    expect(await send("GET /api/health HTTP/1.0\r\n\r\n")).toContain(" 200 OK");
    const expecting =
      "GET /api/health HTTP/1.1\r\nHost: x\r\nExpect: x\r\nConnection: close\r\n\r\n";
    expect(await send(expecting)).toContain(" 200 OK");
  });

  it("get a response in the usual format even if their headers never end", async () => {
    const answer = await send(`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"a".repeat(40_000)}\r\n\r\n`);
    expect(answer).toContain("HTTP/1.1 431");
    expect(answer).toContain("X-Error-Code: headers_too_large");
    expect(answer).toContain('{"error":');
  });
});

describe("an internal error of the API", () => {
  it("returns 500 with the request id only, and is logged with its stack", async () => {
    api.control.planError = new TypeError("secret detail of /var/lib/berth");
    try {
      const response = await api.request({ url: "/api/apps/web/plan" });
      expect(response.statusCode).toBe(500);
      const id = String(response.headers["x-request-id"]);
      expect(readErrorBody(response)).toBe(`internal error, request id ${id}`);
      const entry = api.entries.find(({ fields }) => fields["requestId"] === id);
      expect(entry).toMatchObject({ level: "error", fields: { err: api.control.planError } });
    } finally {
      api.control.planError = undefined;
    }
  });

  it("keeps the caller's request id if it is safe for the log", async () => {
    expect(await echoedId("build-17:3")).toBe("build-17:3");
    expect(await echoedId("a b")).not.toBe("a b");
    expect(await echoedId("x".repeat(200))).toHaveLength(36);
  });
});

describe("the strict JSON parser", () => {
  it("accepts the same documents as JSON.parse if no key occurs twice", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), fc.boolean(), (value, isIndented) => {
        const text = JSON.stringify(value, null, isIndented ? 2 : 0);
        fc.pre(!/"(__proto__|constructor|prototype)":/.test(text));
        expect(parseRequestJson(Buffer.from(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  it("finds a duplicate key at any depth, whatever the name of the key", () => {
    fc.assert(
      fc.property(fc.string(), fc.jsonValue({ maxDepth: 2 }), fc.nat(5), (key, value, depth) => {
        fc.pre(!["__proto__", "constructor", "prototype"].includes(key));
        const twice = `{${JSON.stringify(key)}: ${JSON.stringify(value)}, ${JSON.stringify(key)}: 1}`;
        const text = `${'[{"in":'.repeat(depth)}${twice}${"}]".repeat(depth)}`;
        fc.pre(!/"(__proto__|constructor|prototype)":/.test(text));
        expect(() => parseRequestJson(Buffer.from(text))).toThrow("occurs twice");
      }),
    );
  });
});
