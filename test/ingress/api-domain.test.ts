import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { connect } from "node:http2";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { acceptIngressConnections } from "../../src/base/http/ingress-connections.ts";
import { ingressPaths } from "../../src/controller/ingress/ingress-paths.ts";
import type { AppLogEntry } from "../../src/controller/port.ts";
import { openTestApi, putApp, type TestApi } from "../support/api-harness.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { rawTar } from "../support/raw-tar.ts";

/** Tests of the REST API behind the real Caddy, under a domain of its own. */

const API = "berth.localhost";
const PROXY = "127.0.0.9";
let harness: CaddyHarness;
let api: TestApi;
let local: string;
let stop: () => void;
let agent: Agent;

async function accept(): Promise<void> {
  const { apiSocket } = await ingressPaths(harness.dataDir);
  stop = await acceptIngressConnections(api.server.server, apiSocket);
}

beforeAll(async () => {
  const settings = { apiDomain: API, trustedProxies: [PROXY] };
  harness = await CaddyHarness.open({ https: true, ...settings });
  api = await openTestApi({ clock: systemClock, uploadBytesMax: 16 * 2 ** 20, ...settings });
  local = await api.listen();
  await harness.waitUntilReady();
  await accept();
  const folder = join(harness.dataDir, "ingress", "storage", "pki", "authorities", "local");
  agent = new Agent({ keepAlive: true, maxSockets: 1, ca: readFileSync(join(folder, "root.crt")) });
});
afterAll(async () => {
  agent?.destroy();
  stop?.();
  await api?.[Symbol.asyncDispose]();
  await harness?.[Symbol.asyncDispose]();
});

interface Sent {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: Buffer | string;
  /** The address of this machine from which the request comes. */
  readonly from?: string;
  readonly host?: string;
}

/** Sends a request over TLS, verified with the ingress's own authority. */
function open(path: string, sent: Sent = {}): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: "127.0.0.1",
        port: harness.httpsPort,
        path,
        method: sent.method ?? "GET",
        servername: API,
        headers: {
          Host: sent.host ?? API,
          Authorization: `Bearer ${api.token("admin")}`,
          ...sent.headers,
        },
        agent,
        ...(sent.from === undefined ? {} : { localAddress: sent.from }),
      },
      resolve,
    );
    outgoing.once("error", reject);
    outgoing.end(sent.body);
  });
}

interface Received {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

async function receive(incoming: IncomingMessage): Promise<Received> {
  let body = "";
  for await (const chunk of incoming) body += String(chunk);
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, body };
}

const send = async (path: string, sent?: Sent) => receive(await open(path, sent));

/** Sends a login with a wrong password, and returns the status. */
async function guess(from: string, forwardedFor: string): Promise<number> {
  const { status } = await send("/api/auth/login", {
    method: "POST",
    from,
    headers: { "Content-Type": "application/json", "X-Forwarded-For": forwardedFor },
    body: JSON.stringify({ password: "wrong" }),
  });
  return status;
}

/**
 * Sends a login with a wrong password directly to the API's port and not through the ingress, as a local process could.
 */
function guessLocally(forwardedFor: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Type": "application/json", "X-Forwarded-For": forwardedFor };
    const outgoing = httpRequest(`${local}/api/auth/login`, { method: "POST", headers }, (got) => {
      got.resume();
      resolve(got.statusCode ?? 0);
    });
    outgoing.once("error", reject);
    outgoing.end(JSON.stringify({ password: "wrong" }));
  });
}

function createLogLine(message: string): AppLogEntry {
  return { container: "c", stream: "stdout", time: "2030-01-01T00:00:00Z", message };
}

describe("the API under a domain", () => {
  it("answers over HTTPS, in any spelling of the name, and needs a token", async () => {
    expect((await send("/api/health")).status).toBe(200);
    expect((await send("/api/apps", { host: "BERTH.localhost." })).status).toBe(200);
    expect((await send("/api/apps", { headers: { Authorization: "Bearer no" } })).status).toBe(401);
    expect(harness.ingress.api()).toEqual({ url: `https://${API}:${harness.httpsPort}` });
  });

  it("is not served over HTTP, which redirects to HTTPS", async () => {
    await send("/api/health");
    const answer = await harness.get(API, "/api/apps?limit=1");
    expect([answer.status, answer.headers.location]).toEqual([
      308,
      `https://${API}:${harness.httpsPort}/api/apps?limit=1`,
    ]);
    expect((await harness.get(API, "/.well-known/acme-challenge/x")).status).toBe(404);
  });

  it("does not reveal metrics to a caller without a token", async () => {
    const headers = { Authorization: "" };
    expect((await send("/metrics", { headers })).status).toBe(401);
    expect((await send("/metrics")).status).toBe(200);
  });

  it("sends events as they happen", async () => {
    const incoming = await open("/api/events", {
      headers: { Accept: "text/event-stream" },
    });
    expect(incoming.headers["content-type"]).toContain("text/event-stream");
    putApp(api.store, "watched");
    let seen = "";
    for await (const chunk of incoming) {
      seen += String(chunk);
      if (seen.includes("watched")) break;
    }
    expect(seen).toContain("watched");
  });

  it("sends events over HTTP/2 concurrently with other answers, and ends their stream when the client leaves", async () => {
    const session = connect(`https://127.0.0.1:${harness.httpsPort}`, {
      ca: agent.options.ca,
      servername: API,
    });
    const headers = { ":authority": API, authorization: `Bearer ${api.token("admin")}` };
    const ask = (path: string) => session.request({ ...headers, ":path": path });
    const left = new Promise((resolve) => {
      api.server.server.once("request", (incoming) => incoming.once("close", resolve));
    });
    const events = ask("/api/events?kind=App");
    const [head] = await once(events, "response");
    expect(head).toMatchObject({
      ":status": 200,
      "content-type": "text/event-stream; charset=utf-8",
    });
    expect(session.alpnProtocol).toBe("h2");
    let seen = "";
    events.on("data", (chunk) => {
      seen += String(chunk);
    });
    for (const name of ["first", "second"]) {
      putApp(api.store, name);
      await expect.poll(() => seen).toContain(name);
      const other = ask(`/api/apps/${name}`);
      expect((await once(other, "response"))[0]).toMatchObject({ ":status": 200 });
      other.resume();
    }
    events.close();
    await left;
    session.destroy();
  });

  it("sends the lines of a followed log as they are written, and ends the response when the log ends", async () => {
    putApp(api.store, "logged");
    let finish: (() => void) | undefined;
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    api.control.logs = async function* () {
      yield createLogLine("the first line");
      await finished;
      yield createLogLine("the last line");
    };
    const incoming = await open("/api/apps/logged/logs?follow=true");
    let seen = "";
    for await (const chunk of incoming) {
      seen += String(chunk);
      if (seen.includes("the first line")) finish?.();
    }
    expect(seen).toContain("the last line");
    expect(incoming.complete).toBe(true);
  });

  it("accepts large archives", async () => {
    const content = randomBytes(8 * 2 ** 20);
    const body = gzipSync(rawTar([{ name: "index.html", content }]), { level: 0 });
    const { status, body: answer } = await send("/api/archives", {
      method: "PUT",
      headers: { "Content-Type": "application/gzip" },
      body,
    });
    expect([status, JSON.parse(answer)]).toMatchObject([200, { bytes: body.length }]);
  });

  it.each([
    ["too large", "/api/archives", 413],
    ["for an unknown route", "/api/nowhere", 404],
  ])(
    "answers an upload that is %s before the upload has ended, and then answers the next request",
    async (_, path, status) => {
      const answer = await send(path, {
        method: "PUT",
        headers: { "Content-Type": "application/gzip" },
        body: Buffer.alloc(40 * 2 ** 20),
      });
      expect([answer.status, Object.keys(JSON.parse(answer.body))]).toEqual([status, ["error"]]);
      expect((await send("/api/health")).status).toBe(200);
    },
  );
});

describe("the client of a request", () => {
  it("is the sender and not an address in a header, so that wrong passwords lock out only their sender", async () => {
    const own = new Agent({ ca: agent.options.ca });
    const before = agent;
    agent = own;
    try {
      for (let count = 0; count < 5; count += 1)
        expect(await guess("127.0.0.2", `198.51.100.${count}`)).toBe(401);
      expect(await guess("127.0.0.2", "198.51.100.99")).toBe(429);
      expect(await guess("127.0.0.3", "127.0.0.2")).toBe(401);
      for (let count = 0; count < 5; count += 1)
        expect(await guess(PROXY, `ingress, 198.51.100.${count}, 203.0.113.7`)).toBe(401);
      expect(await guess(PROXY, "203.0.113.7")).toBe(429);
      expect(await guess(PROXY, "203.0.113.8")).toBe(401);
    } finally {
      agent = before;
      own.destroy();
    }
  });

  it("is not taken from a header that another process of this machine sends directly to the API's port", async () => {
    for (let count = 0; count < 5; count += 1)
      expect(await guessLocally(`192.0.2.${count}`)).toBe(401);
    expect(await guessLocally("192.0.2.99")).toBe(429);
  });
});

describe("an app", () => {
  it("does not get the domain of the API, and its condition says why", async () => {
    harness.apply("thief", { domain: API });
    await harness.waitForVerdict("thief", "DomainTaken");
    expect(harness.getVerdict("thief")).toMatchObject({
      message: `${API} is the address of Berth's own API (the setting api_domain): choose another domain`,
    });
    expect((await send("/api/health")).status).toBe(200);
  });
});

describe("while Berth is stopped", () => {
  it("Caddy answers with an error in the API's format, and forwards requests when the API is back", async () => {
    stop();
    // Caddy's connections to the stopped server stay open, so the test closes them.
    api.server.server.closeAllConnections();
    const answer = await send("/api/health");
    expect([answer.status, answer.headers["x-error-code"], JSON.parse(answer.body)]).toEqual([
      503,
      "server_unreachable",
      { error: expect.stringContaining("Berth does not answer") },
    ]);
    const waiting = send("/api/health");
    await accept();
    expect((await waiting).status).toBe(200);
  });
});

describe("a public name", () => {
  it("is reported as not working until it has a certificate", async () => {
    await harness.stopBerth();
    await harness.boot({ apiDomain: "berth.example.org" });
    await harness.waitUntilReady();
    expect(harness.ingress.api()).toEqual({
      url: `https://berth.example.org:${harness.httpsPort}`,
      problem: expect.stringContaining("the certificate of berth.example.org is being obtained"),
    });
    expect((await harness.get("berth.example.org")).status).toBe(307);
  });

  it("is refused at the start if there is no ingress", async () => {
    await harness.stopBerth();
    const options = { apiDomain: "berth.example.org", httpPort: undefined, httpsPort: undefined };
    await expect(harness.boot(options)).rejects.toThrow(
      "the API cannot be served under --api-domain berth.example.org: there is no ingress",
    );
  });
});
