import { describe, expect, it } from "vitest";
import { getClientAddress } from "../../../src/api/auth/client-address.ts";
import { ensurePassword } from "../../../src/api/auth/password.ts";
import { openTestApi } from "../../support/api-harness.ts";

describe("the address of a client behind proxies", () => {
  it.each([
    [["10.0.0.1", "203.0.113.7"], "203.0.113.7"],
    [["10.0.0.1", "203.0.113.7:4711"], "203.0.113.7"],
    [["10.0.0.1", "[2001:db8::1]:443"], "2001:db8::1"],
    [["10.0.0.1", "fe80::1%eth0"], "fe80::1"],
    [["10.0.0.1", "unknown"], "10.0.0.1"],
    [["10.0.0.2", "10.0.0.1", "x".repeat(1000)], "10.0.0.1"],
    [["ingress", "evil\u001b[2J"], "ingress"],
  ])("is computed from the addresses that a request passed: %j gives %s", (ips, address) => {
    expect(getClientAddress({ ip: ips.at(-1) ?? "", ips })).toBe(address);
  });

  it("is that of the sender if no proxy is trusted", () => {
    expect(getClientAddress({ ip: "203.0.113.7" })).toBe("203.0.113.7");
  });
});

it("the limit of password attempts applies to a client that sends another text in X-Forwarded-For with each attempt", async () => {
  await using api = await openTestApi({ trustedProxies: ["10.0.0.1"] });
  await ensurePassword(api.store, "correct horse");
  const login = (forwarded: string) =>
    api.server.inject({
      method: "POST",
      url: "/api/auth/login",
      payload: { password: "wrong" },
      remoteAddress: "10.0.0.1",
      headers: { "x-forwarded-for": forwarded },
    });
  const statuses: number[] = [];
  for (let attempt = 0; attempt < 6; attempt += 1)
    statuses.push((await login(`text-${attempt}`)).statusCode);
  expect(statuses).toEqual([401, 401, 401, 401, 401, 429]);
  expect((await login("203.0.113.7")).statusCode).toBe(401);
});
