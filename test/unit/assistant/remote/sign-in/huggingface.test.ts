import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AuthorizationServer, KNOWN_CLIENT } from "../../../../support/authorization-server.ts";
import { SignInHarness } from "../../../../support/sign-in-harness.ts";

let server: AuthorizationServer;

beforeAll(async () => {
  server = await AuthorizationServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

const soon = () => AbortSignal.timeout(10_000);

async function signedIn(harness: SignInHarness) {
  const page = await server.signIn(await harness.signIns.begin("huggingface"));
  expect(await page.text()).toContain("You are signed in");
  return harness.session;
}

describe("signing in at a correct authorization server", () => {
  it("registers a client, asks the user for consent, and stores the session", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const begun = Date.now();
    const url = new URL(await harness.signIns.begin("huggingface"));
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      response_type: "code",
      scope: "openid inference-api",
      code_challenge_method: "S256",
      redirect_uri: expect.stringMatching(/^http:\/\/127\.0\.0\.1:[0-9]+\/[\w-]{22}$/),
    });
    expect(harness.signIns.pending()).toEqual([
      { provider_id: "huggingface", expires_at: expect.stringMatching(/Z$/) },
    ]);
    const page = await server.signIn(url.href);
    expect(page.status).toBe(200);
    expect(harness.details).toEqual(["ok"]);
    expect(harness.signIns.pending()).toEqual([]);
    expect(await server.accountOf(harness.session.accessToken)).toBe("alice");
    expect(harness.session.clientId).toBe(url.searchParams.get("client_id"));
    expect((harness.session.expiresAtMs ?? 0) - begun).toBeGreaterThan(3_500_000);
    expect((harness.session.expiresAtMs ?? 0) - begun).toBeLessThan(3_700_000);
  });

  it("uses a client that was registered manually", async () => {
    await using harness = new SignInHarness({
      huggingface: { issuer: server.issuer, clientId: KNOWN_CLIENT },
    });
    const asked = server.requests.length;
    const { clientId } = await signedIn(harness);
    expect(clientId).toBe(KNOWN_CLIENT);
    expect(server.requests.slice(asked)).not.toContain("POST /reg");
  });

  it("ends with denied_by_user if the user declines", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const url = await harness.signIns.begin("huggingface");
    const page = await server.signIn(url, "abort");
    expect(await page.text()).toContain("You declined");
    expect(harness.ends).toEqual([{ provider: "huggingface", detail: "denied_by_user" }]);
    expect(harness.kept).toEqual([]);
  });

  it("exchanges only one code, and the first result is final", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const back = await server.authorize(await harness.signIns.begin("huggingface"));
    expect((await fetch(back)).status).toBe(200);
    const again = await fetch(back);
    expect(again.status).toBe(410);
    expect(await again.text()).toContain("has ended");
    expect(harness.details).toEqual(["ok"]);
    expect(server.requests.filter((one) => one === "POST /token").length).toBeGreaterThan(0);
    expect(await server.accountOf(harness.session.accessToken)).toBe("alice");
  });

  it("accepts only one of many simultaneous callbacks", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const back = await server.authorize(await harness.signIns.begin("huggingface"));
    const pages = await Promise.all(Array.from({ length: 8 }, () => fetch(back)));
    expect(pages.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      200,
      ...Array<number>(7).fill(410),
    ]);
    expect(harness.details).toEqual(["ok"]);
  });

  it("fails with a code that was used before", async () => {
    await using former = new SignInHarness({ huggingface: server });
    const used = await server.authorize(await former.signIns.begin("huggingface"));
    expect((await fetch(used)).status).toBe(200);
    await using harness = new SignInHarness({ huggingface: server });
    const back = await server.authorize(await harness.signIns.begin("huggingface"));
    back.searchParams.set("code", used.searchParams.get("code") ?? "");
    expect((await fetch(back)).status).toBe(502);
    expect(harness.details).toEqual(["exchange_failed"]);
    expect(harness.log).toContain('"reason":"invalid_grant"');
    expect(harness.kept).toEqual([]);
  });

  it("shows and logs the result without any secret", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const back = await server.authorize(await harness.signIns.begin("huggingface"));
    const page = await (await fetch(back)).text();
    const { accessToken, refreshToken } = harness.session;
    for (const name of ["code", "state", "iss"]) {
      const value = back.searchParams.get(name) ?? "";
      expect(value).not.toBe("");
      expect(page + harness.log).not.toContain(value);
    }
    expect(harness.log).toContain('"detail":"ok"');
    expect(harness.log).not.toContain(accessToken);
    expect(harness.log).not.toContain(String(refreshToken));
  });
});

describe("the session of a sign-in", () => {
  it("is renewed once for all simultaneous callers", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const session = await signedIn(harness);
    const asked = server.requests.length;
    const [one, other] = await Promise.all([
      harness.signIns.refresh("huggingface", session, soon()),
      harness.signIns.refresh("huggingface", session, soon()),
    ]);
    expect(server.requests.slice(asked).filter((line) => line === "POST /token")).toHaveLength(1);
    expect(other).toEqual(one);
    expect(one.accessToken).not.toBe(session.accessToken);
    expect(one.refreshToken).not.toBe(session.refreshToken);
    expect(one.clientId).toBe(session.clientId);
    expect(await server.accountOf(one.accessToken)).toBe("alice");
  });

  it("is renewed even if the first caller has aborted", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const session = await signedIn(harness);
    const leaving = new AbortController();
    const left = harness.signIns.refresh("huggingface", session, leaving.signal);
    const stayed = harness.signIns.refresh("huggingface", session, soon());
    leaving.abort(new Error("left"));
    await expect(left).rejects.toThrow("left");
    expect(await server.accountOf((await stayed).accessToken)).toBe("alice");
  });

  it("has ended if its refresh token was used before", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const session = await signedIn(harness);
    await harness.signIns.refresh("huggingface", session, soon());
    const error = await harness.signIns.refresh("huggingface", session, soon()).catch(String);
    expect(error).toContain("sign in again");
    await expect(harness.signIns.refresh("huggingface", session, soon())).rejects.toMatchObject({
      code: "unauthorized",
    });
    expect(error).not.toContain(session.refreshToken);
  });

  it("has ended if the server refuses to renew it", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const session = { ...(await signedIn(harness)), refreshToken: undefined };
    await expect(harness.signIns.refresh("huggingface", session, soon())).rejects.toMatchObject({
      code: "unauthorized",
    });
  });

  it("is revoked with both of its tokens", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    const session = await signedIn(harness);
    expect(await server.hasRefreshToken(String(session.refreshToken))).toBe(true);
    await harness.signIns.revoke("huggingface", session);
    expect(await server.accountOf(session.accessToken)).toBeUndefined();
    expect(await server.hasRefreshToken(String(session.refreshToken))).toBe(false);
  });

  it("that could not be stored is revoked, and the failure is reported", async () => {
    await using harness = new SignInHarness({ huggingface: server });
    harness.beforeKeeping = () => Promise.reject(new Error("disk full"));
    const asked = server.requests.length;
    const page = await server.signIn(await harness.signIns.begin("huggingface"));
    expect(page.status).toBe(500);
    expect(harness.details).toEqual(["storage_failed"]);
    await harness[Symbol.asyncDispose]();
    expect(
      server.requests.slice(asked).filter((line) => line === "POST /token/revocation"),
    ).toHaveLength(2);
  });
});
