import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { IngressOptions } from "../../src/resources/app-ingress-spec.ts";
import { type Backend, startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";

/** Attempts to reach an App with basic authentication without a valid password, with the real Caddy. */

let harness: CaddyHarness;
let secret: Backend;
let open: Backend;

beforeAll(async () => {
  harness = await CaddyHarness.open({ https: true });
  secret = await startBackend("secret");
  open = await startBackend("open");
  await harness.waitUntilReady();
  harness.applySecret("people", { ann: "right" });
  await addApp("closed", secret, { basicAuth: { secret: "people" }, domains: ["shared.test"] });
  await addApp("team", secret, {
    basicAuth: { secret: "people" },
    domains: ["shared.internal"],
    pathPrefix: "/team",
    stripPrefix: true,
  });
  await addApp("wide", secret, { basicAuth: { secret: "people" }, domains: ["*.wide.test"] });
  await addApp("public", open, { domains: ["shared.internal"] });
});
afterAll(async () => {
  await harness[Symbol.asyncDispose]();
  await secret[Symbol.asyncDispose]();
  await open[Symbol.asyncDispose]();
});

async function addApp(name: string, backend: Backend, ingress: IngressOptions): Promise<void> {
  harness.apply(name, { ingress });
  await harness.waitForVerdict(name);
  await harness.ingress.table.write(name, { version: "v1", targets: [backend.target] });
}

/** Sends the bytes, and returns all that Caddy answers until it closes the connection. */
async function exchange(bytes: string | Buffer): Promise<string> {
  const socket = connect(harness.httpPort, "127.0.0.1");
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  socket.on("error", () => {});
  socket.write(bytes);
  await once(socket, "close");
  return text;
}

const close = "Connection: close\r\n\r\n";
const login = (text: string) =>
  `Authorization: Basic ${Buffer.from(text, "utf8").toString("base64")}\r\n`;
const get = (target: string, host = "closed.localhost", headers = "") =>
  `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${headers}${close}`;

describe("a request to an App with basic authentication", () => {
  it.each([
    ["no password", get("/")],
    ["a host in capitals", get("/", "CLOSED.LocalHost")],
    ["a host with a dot at its end", get("/", "closed.localhost.")],
    ["a host with a port", get("/", "closed.localhost:443")],
    ["its second domain", get("/", "shared.test")],
    ["a name below its wildcard", get("/", "a.wide.test")],
    ["an absolute target and another Host", get("http://closed.localhost/", "public.localhost")],
    ["a Host with a path", get("/", "x/../closed.localhost")],
    ["the path of a folder of the route table as its Host", get("/", "../apps/closed")],
    ["an encoded path of the route table as its Host", get("/", "..%2fapps%2fclosed")],
    ["the path of ACME challenges", get("/.well-known/acme-challenge/x")],
    [
      "the path of certificate permissions",
      get("/.well-known/berth/certificate?domain=closed.localhost"),
    ],
    ["an encoded path", get("/%2e%2e/%2f/x")],
    ["another method", `OPTIONS * HTTP/1.1\r\nHost: closed.localhost\r\n${close}`],
    ["CONNECT", `CONNECT closed.localhost:80 HTTP/1.1\r\nHost: closed.localhost\r\n${close}`],
    [
      "headers of a proxy",
      get(
        "/",
        "closed.localhost",
        "X-Forwarded-User: ann\r\nX-Forwarded-For: 127.0.0.1\r\nX-Original-URL: /\r\nX-HTTP-Method-Override: OPTIONS\r\n",
      ),
    ],
    [
      "an upgrade to HTTP/2",
      get("/", "closed.localhost", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"),
    ],
    [
      "an upgrade to a WebSocket",
      `GET / HTTP/1.1\r\nHost: closed.localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
    ],
    ["an empty password", get("/", "closed.localhost", login("ann:"))],
    ["an empty user", get("/", "closed.localhost", login(":right"))],
    ["no colon", get("/", "closed.localhost", login("annright"))],
    ["a colon in the user", get("/", "closed.localhost", login("ann:x:right"))],
    ["a user in capitals", get("/", "closed.localhost", login("ANN:right"))],
    ["a user with a look-alike letter", get("/", "closed.localhost", login("\u0430nn:right"))],
    ["a user with an accent", get("/", "closed.localhost", login("a\u0301nn:right"))],
    ["the password with a zero byte", get("/", "closed.localhost", login("ann:right\0x"))],
    ["a password of 100 kB", get("/", "closed.localhost", login(`ann:${"x".repeat(100_000)}`))],
    ["the hash as the password", get("/", "closed.localhost", login("ann:$2a$10$"))],
    ["another scheme", get("/", "closed.localhost", "Authorization: Bearer right\r\n")],
    [
      "the password in a second header",
      get("/", "closed.localhost", `Authorization: x\r\n${login("ann:right")}`),
    ],
    [
      "the password in a proxy's header",
      get("/", "closed.localhost", login("ann:right").replace("Auth", "Proxy-Auth")),
    ],
    ["the password in the target", get("http://ann:right@closed.localhost/")],
    ["a path below its prefix", get("/team/x", "shared.internal")],
    ["an encoded path below its prefix", get("/%74eam/x", "shared.internal")],
    ["doubled slashes before its prefix", get("//team//x", "shared.internal")],
    ["a detour to its prefix", get("/other/../team/x", "shared.internal")],
    ["its prefix with an encoded slash", get("/team%2fx", "shared.internal")],
  ])("does not reach the App if it uses %s", async (_, request) => {
    const before = secret.seen.length;
    const answer = await exchange(request);
    expect(answer).toMatch(
      /^HTTP\/1\.1 (?:30[78]|4\d\d|200 OK\r\n(?:.*\r\n)*?Content-Length: 0|200 OK[^]*open)/,
    );
    expect(answer).not.toMatch(/\r\nsecret$/);
    expect(secret.seen).toHaveLength(before);
  });

  it("that follows a smuggled one on the same connection needs the password too", async () => {
    const before = secret.seen.length;
    const hidden = get("/hidden");
    // oxlint-disable-next-line no-await-in-loop -- one attempt after the other
    for (const framing of [
      `Content-Length: ${hidden.length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      `Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n`,
      `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
      `Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n\r\n`,
      `X: a\nContent-Length: 0\r\n\r\n`,
    ])
      await exchange(`POST / HTTP/1.1\r\nHost: public.localhost\r\n${framing}${hidden}`);
    expect(secret.seen).toHaveLength(before);
    expect(open.seen.some(({ url }) => url === "/hidden")).toBe(false);
  });

  it("over HTTP/2 needs the password, whatever its Host header says", async () => {
    const before = secret.seen.length;
    const session = connectHttp2(`https://127.0.0.1:${harness.httpsPort}`, {
      servername: "public.localhost",
      rejectUnauthorized: false,
    });
    const send = async (headers: Record<string, string>): Promise<unknown> => {
      const stream = session.request({ ":path": "/", ...headers });
      stream.resume();
      const [answer]: { ":status"?: number }[] = await once(stream, "response");
      return answer?.[":status"];
    };
    expect(await send({ ":authority": "public.localhost" })).toBe(200);
    expect(await send({ ":authority": "closed.localhost" })).toBe(401);
    expect(await send({ ":authority": "closed.localhost", host: "public.localhost" })).toBe(401);
    expect(await send({ ":authority": "CLOSED.localhost." })).toBe(401);
    session.close();
    expect(secret.seen).toHaveLength(before);
  });
});

describe("an App with basic authentication", () => {
  it("refuses the old password on a connection that stays open when the password is replaced", async () => {
    harness.applySecret("turning", { ann: "old" });
    await addApp("turned", secret, { basicAuth: { secret: "turning" } });
    const socket: Socket = connect(harness.httpPort, "127.0.0.1");
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    let closed = false;
    socket.once("close", () => {
      closed = true;
    });
    socket.on("error", () => {});
    const request = get("/", "turned.localhost", login("ann:old")).replace("close", "keep-alive");
    socket.write(request);
    await expect.poll(() => text).toMatch(/\r\nsecret$/);
    harness.applySecret("turning", { ann: "new" });
    await expect
      .poll(
        async () =>
          /^HTTP\S+ (\d+)/.exec(
            await exchange(get("/", "turned.localhost", login("ann:new"))),
          )?.[1],
      )
      .toBe("200");
    text = "";
    socket.write(request);
    await expect.poll(() => closed || text.includes("HTTP/1.1 401")).toBe(true);
    expect(text).not.toContain("200 OK");
    socket.destroy();
  });

  it("shows its maintenance page without a password, and nothing else of the App", async () => {
    const before = secret.seen.length;
    await addApp("paused", secret, { basicAuth: { secret: "people" }, maintenance: true });
    expect(await exchange(get("/", "paused.localhost"))).toMatch(/^HTTP\/1\.1 503 /);
    expect(secret.seen).toHaveLength(before);
  });

  it("is not served if a password contains a control character", async () => {
    for (const [name, password] of [
      ["zero", "\0"],
      ["line", "right\n"],
    ] as const) {
      harness.applySecret(name, { ann: password });
      harness.apply(name, { ingress: { basicAuth: { secret: name } } });
      // oxlint-disable-next-line no-await-in-loop -- one App after the other
      const verdict = await harness.waitForVerdict(name, "SecretInvalid");
      expect(verdict).toMatchObject({ message: expect.stringContaining("control character") });
    }
  });
});
