import { describe, expect, it } from "vitest";
import { AttemptLimiter } from "../../../src/api/auth/attempt-limiter.ts";
import { createProxyCheck } from "../../../src/api/auth/trusted-proxies.ts";
import { openTestApi, type TestApi } from "../../support/api-harness.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const login = (api: TestApi, password: string, remoteAddress: string, forwardedFor?: string) =>
  api.server.inject({
    method: "POST",
    url: "/api/auth/login",
    payload: { password },
    remoteAddress,
    headers: forwardedFor === undefined ? {} : { "x-forwarded-for": forwardedFor },
  });

describe("the client of a request", () => {
  it("is the address that the nearest trusted proxy reports, so that one client does not lock another one out", async () => {
    await using api = await openTestApi({ trustedProxies: ["10.1.0.0/16", "127.0.0.1"] });
    for (let count = 0; count < 5; count += 1)
      await login(api, "wrong", "127.0.0.1", `spoofed-${count}, 203.0.113.9, 10.1.2.3`);
    expect((await login(api, "wrong", "127.0.0.1", "1.2.3.4, 203.0.113.9")).statusCode).toBe(429);
    expect((await login(api, "wrong", "127.0.0.1", "203.0.113.8")).statusCode).toBe(401);
  });

  it("is the sender itself if there is no trusted proxy, whatever the headers claim", async () => {
    await using api = await openTestApi({ trustedProxies: ["10.1.0.0/16"] });
    for (let count = 0; count < 5; count += 1)
      await login(api, "wrong", "203.0.113.9", `198.51.100.${count}`);
    expect((await login(api, "wrong", "203.0.113.9", "198.51.100.77")).statusCode).toBe(429);
  });

  it("is delayed by at most five seconds, and not refused, while many other clients try passwords", async () => {
    const clock = new VirtualClock();
    const limiter = new AttemptLimiter(clock);
    const { signal } = new AbortController();
    for (let count = 0; count < 500; count += 1) limiter.begin(`203.0.${count}.1`).end(false);
    let isPast = false;
    void limiter.slowDown(signal).then(() => {
      isPast = true;
    });
    await clock.advance(4_900);
    expect(isPast).toBe(false);
    await clock.advance(100);
    expect(isPast).toBe(true);
    expect(() => limiter.begin("198.51.100.1").end(true)).not.toThrow();
    await clock.advance(60_000);
    await limiter.slowDown(signal);
  });
});

describe("createProxyCheck", () => {
  it("accepts IPv4 and IPv6 addresses and networks of trusted proxies, and refuses all others", () => {
    const isProxy = createProxyCheck(["10.0.0.2", "192.168.0.0/24", "fd00::/8"]);
    const trusted = ["10.0.0.2", "::ffff:10.0.0.2", "192.168.0.7", "fd12::1"];
    const others = ["10.0.0.3", "192.168.1.1", "fe80::1", "", "unknown", "10.0.0.2:80"];
    expect(trusted.map((address) => isProxy(address, 1))).toEqual([true, true, true, true]);
    expect(others.map((address) => isProxy(address, 1))).toEqual(others.map(() => false));
  });

  it("trusts the ingress if it sends the request itself, but not if a header only names it", () => {
    const isProxy = createProxyCheck([]);
    expect([isProxy("ingress", 0), isProxy("ingress", 1)]).toEqual([true, false]);
  });
});

describe("the response to a request without a valid token", () => {
  it("names the authentication scheme that the API accepts", async () => {
    await using api = await openTestApi();
    const missing = await api.server.inject({ url: "/api/apps" });
    const wrong = await login(api, "wrong", "10.0.0.1");
    for (const { statusCode, headers } of [missing, wrong])
      expect([statusCode, headers["www-authenticate"]]).toEqual([401, 'Bearer realm="berth"']);
    expect((await api.request({ url: "/api/apps" })).headers["www-authenticate"]).toBeUndefined();
  });
});

describe("GET /metrics without a token", () => {
  it("is refused if the Host header names another machine", async () => {
    await using api = await openTestApi();
    const get = async (host: string) =>
      (await api.server.inject({ url: "/metrics", headers: { host } })).statusCode;
    for (const host of ["localhost:7776", "127.0.0.1:7776", "[::1]:7776", "LOCALHOST"])
      expect(await get(host)).toBe(200);
    for (const host of ["rebound.example.org", "127.0.0.1.example.org", "localhost.evil.test:80"])
      expect(await get(host)).toBe(401);
  });
});
