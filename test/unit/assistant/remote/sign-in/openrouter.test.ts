import { connect } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openDescriptors } from "../../../../support/open-descriptors.ts";
import { OpenRouterSignInServer } from "../../../../support/openrouter-sign-in.ts";
import { SignInHarness, sendRawRequest } from "../../../../support/sign-in-harness.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

let server: OpenRouterSignInServer;

beforeAll(async () => {
  server = await OpenRouterSignInServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(() => {
  server.intercept = () => false;
});

function newWorld(clock?: VirtualClock): SignInHarness {
  return new SignInHarness({ openrouter: server.endpoints(), ...(clock ? { clock } : {}) });
}

describe("signing in at OpenRouter", () => {
  it("exchanges a code for a key that does not expire", async () => {
    await using harness = newWorld();
    const page = await server.signIn(await harness.signIns.begin("openrouter"));
    expect(await page.text()).toContain("You are signed in");
    expect(harness.details).toEqual(["ok"]);
    expect(harness.kept).toEqual([
      {
        kind: "oauth",
        accessToken: server.keys.at(-1),
        refreshToken: undefined,
        expiresAtMs: undefined,
        clientId: "",
      },
    ]);
    expect(harness.log).not.toContain(server.keys.at(-1));
  });

  it("sends a verifier that matches the challenge", async () => {
    await using harness = newWorld();
    const url = new URL(await harness.signIns.begin("openrouter"));
    expect(url.searchParams.get("code_challenge_method")).toBe("S256");
    url.searchParams.set("code_challenge", "another");
    expect((await server.signIn(url.href)).status).toBe(502);
    expect(harness.details).toEqual(["exchange_failed"]);
    expect(harness.log).toContain('"reason":"status_403"');
  });

  it("refuses a callback with another state, whatever its code", async () => {
    await using harness = newWorld();
    const back = await server.authorize(await harness.signIns.begin("openrouter"));
    const exchanges = server.exchanges;
    const forged = new URL(back);
    forged.pathname = forged.pathname.replace(/[^/]+$/, "AAAAAAAAAAAAAAAAAAAAAA");
    expect((await fetch(forged)).status).toBe(400);
    expect((await fetch(back)).status).toBe(410);
    expect(harness.details).toEqual(["state_mismatch"]);
    expect(server.exchanges).toBe(exchanges);
  });

  it.each([
    ["no key", "{}"],
    ["a key with a line end", '{"key":"a\\nb"}'],
    ["no JSON", "<p>"],
    ["null", "null"],
  ])("stores nothing if the answer has %s", async (_what, body) => {
    await using harness = newWorld();
    server.intercept = (_request, response) => {
      response.writeHead(200, { "content-type": "application/json" }).end(body);
      return true;
    };
    await server.signIn(await harness.signIns.begin("openrouter"));
    expect(harness.details).toEqual(["exchange_failed"]);
    expect(harness.kept).toEqual([]);
  });

  it("creates a session that is never renewed, and that no endpoint can revoke", async () => {
    await using harness = newWorld();
    await server.signIn(await harness.signIns.begin("openrouter"));
    const signal = AbortSignal.timeout(5000);
    await expect(
      harness.signIns.refresh("openrouter", harness.session, signal),
    ).rejects.toMatchObject({
      code: "unauthorized",
    });
    await harness.signIns.revoke("openrouter", harness.session);
  });
});

describe("the listener for the callback of a sign-in", () => {
  it("serves pages that have no scripts, are not cached, and send no referrer", async () => {
    await using harness = newWorld();
    const back = await server.authorize(await harness.signIns.begin("openrouter"));
    const { headers, text } = await sendRawRequest(back);
    expect(headers["content-security-policy"]).toContain("default-src 'none'");
    expect(headers["cache-control"]).toBe("no-store");
    expect(headers["referrer-policy"]).toBe("no-referrer");
    expect(headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(text).toContain("You can close this window");
    expect(text).not.toMatch(/<script|https?:|style=/);
  });

  it.each(["POST", "HEAD", "PUT", "OPTIONS"])(
    "refuses the method %s, and keeps waiting",
    async (method) => {
      await using harness = newWorld();
      const back = await server.authorize(await harness.signIns.begin("openrouter"));
      const refused = await sendRawRequest(back, { method });
      expect([refused.status, refused.headers["allow"]]).toEqual([405, "GET"]);
      expect(harness.ends).toEqual([]);
      expect((await sendRawRequest(back)).status).toBe(200);
      expect(harness.details).toEqual(["ok"]);
    },
  );

  it.each(["/", "/favicon.ico", "/callback", "//x/y"])("responds with 404 at %s", async (path) => {
    await using harness = newWorld();
    const back = await server.authorize(await harness.signIns.begin("openrouter"));
    expect((await sendRawRequest(`${back.origin}${path}`)).status).toBe(404);
    expect(harness.ends).toEqual([]);
    expect((await sendRawRequest(back)).status).toBe(200);
  });

  it.each(["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.nip.io"])(
    "ends the sign-in if a request with the secret path has the host name %s",
    async (host) => {
      await using harness = newWorld();
      const back = await server.authorize(await harness.signIns.begin("openrouter"));
      const exchanges = server.exchanges;
      expect((await sendRawRequest(back, { host })).status).toBe(400);
      expect(harness.details).toEqual(["state_mismatch"]);
      expect(server.exchanges).toBe(exchanges);
      expect(harness.log).toContain('"reason":"host"');
    },
  );

  it("refuses another host name on other paths too, and keeps waiting", async () => {
    await using harness = newWorld();
    const back = await server.authorize(await harness.signIns.begin("openrouter"));
    expect((await sendRawRequest(back.origin, { host: "evil.example" })).status).toBe(400);
    expect(harness.ends).toEqual([]);
    expect((await sendRawRequest(back)).status).toBe(200);
  });

  it("refuses two host names in one request, and an absolute URL as the path", async () => {
    await using harness = newWorld();
    const back = await server.authorize(await harness.signIns.begin("openrouter"));
    const path = back.pathname + back.search;
    expect(
      await raw(back, `GET http://evil.example${path} HTTP/1.1\r\nHost: ${back.host}\r\n\r\n`),
    ).toContain("404");
    expect(
      await raw(back, `GET / HTTP/1.1\r\nHost: ${back.host}\r\nHost: evil.example\r\n\r\n`),
    ).toContain("400");
    expect(harness.ends).toEqual([]);
  });

  it("listens on 127.0.0.1 only", async () => {
    await using harness = newWorld();
    const url = new URL(await harness.signIns.begin("openrouter"));
    const callback = new URL(url.searchParams.get("callback_url") ?? "");
    expect(callback.hostname).toBe("127.0.0.1");
    await expect(raw({ hostname: "127.0.0.2", port: callback.port }, "")).rejects.toThrow(
      "ECONNREFUSED",
    );
  });
});

describe("a started sign-in at OpenRouter", () => {
  it("ends after five minutes at the latest", async () => {
    const clock = new VirtualClock();
    await using harness = newWorld(clock);
    const url = await harness.signIns.begin("openrouter");
    const back = await server.authorize(url);
    await clock.advance(299_000);
    expect(harness.ends).toEqual([]);
    await clock.advance(1_000);
    expect(harness.details).toEqual(["timeout"]);
    expect(harness.signIns.pending()).toEqual([]);
    await expect(sendRawRequest(back)).rejects.toThrow("ECONNREFUSED");
  });

  it("ends when a newer sign-in is started", async () => {
    await using harness = newWorld();
    const old = await server.authorize(await harness.signIns.begin("openrouter"));
    const back = await server.authorize(await harness.signIns.begin("openrouter"));
    expect(harness.details).toEqual(["superseded"]);
    await expect(sendRawRequest(old)).rejects.toThrow("ECONNREFUSED");
    expect((await sendRawRequest(back)).status).toBe(200);
    expect(harness.details).toEqual(["superseded", "ok"]);
  });

  it("ends only once, even if it is cancelled twice", async () => {
    await using harness = newWorld();
    await harness.signIns.begin("openrouter");
    harness.signIns.cancel("openrouter");
    harness.signIns.cancel("openrouter");
    expect(harness.details).toEqual(["cancelled"]);
    harness.signIns.cancel("huggingface");
    expect(harness.details).toEqual(["cancelled"]);
  });

  it("that is superseded before it has a URL ends with an error of BeginLogin", async () => {
    await using harness = newWorld();
    const first = harness.signIns.begin("openrouter");
    const second = harness.signIns.begin("openrouter");
    await expect(first).rejects.toMatchObject({ code: "cancelled" });
    expect(await second).toContain("/auth?callback_url=");
    expect(harness.ends).toEqual([]);
  });

  it("succeeds if it is cancelled while its session is being stored", async () => {
    await using harness = newWorld();
    harness.beforeKeeping = async () => {
      harness.signIns.cancel("openrouter");
      await nextTurn();
    };
    await server.signIn(await harness.signIns.begin("openrouter"));
    expect(harness.details).toEqual(["ok"]);
    expect(harness.kept).toHaveLength(1);
  });

  it("is cancelled when the companion shuts down, and no other sign-in can start", async () => {
    const harness = newWorld();
    await harness.signIns.begin("openrouter");
    await harness[Symbol.asyncDispose]();
    expect(harness.details).toEqual(["cancelled"]);
    await expect(harness.signIns.begin("openrouter")).rejects.toMatchObject({
      code: "shutting_down",
    });
  });
});

it("200 failed sign-ins leave no resource open", async () => {
  await using harness = newWorld();
  await harness.signIns.begin("openrouter");
  const before = openDescriptors();
  for (let round = 0; round < 200; round += 1) {
    const url = await harness.signIns.begin("openrouter");
    if (round % 2 === 0) harness.signIns.cancel("openrouter");
    if (round % 5 === 0) await server.authorize(url);
  }
  expect(harness.ends).toHaveLength(200);
  expect(openDescriptors()).toBeLessThan(before + 10);
});

/** Sends `text` unchanged to the listener, and returns the status line of the response. */
function raw(to: { readonly hostname: string; readonly port: string }, text: string) {
  return new Promise<string>((resolve, reject) => {
    const socket = connect(Number(to.port), to.hostname, () => socket.write(text));
    socket.once("data", (bytes) => {
      resolve(bytes.toString("latin1").split("\r\n")[0] ?? "");
      socket.destroy();
    });
    socket.once("error", reject);
  });
}
