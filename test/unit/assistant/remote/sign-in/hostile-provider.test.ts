import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { LoginDetail } from "../../../../../src/assistant/remote/port.ts";
import {
  type Claims,
  FakeOpenIdProvider,
  keyPair,
} from "../../../../support/fake-openid-provider.ts";
import { TestProvider } from "../../../../support/provider/test-provider.ts";
import { SignInHarness } from "../../../../support/sign-in-harness.ts";
import { WAIT_OPTIONS } from "../../../../support/wait-limits.ts";

/**
 * A short time limit for the provider's answers, for tests that wait until it has passed. A server on the same machine
 * answers earlier, even under load.
 */
const IMPATIENT_MS = 800;

let provider: FakeOpenIdProvider;
let harness: SignInHarness;

beforeEach(async () => {
  provider = await FakeOpenIdProvider.start();
  harness = new SignInHarness({ huggingface: provider });
});
afterEach(async () => {
  await harness[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
});

const tokens = () => provider.asked.get("/token") ?? 0;

/**
 * Runs a sign-in in which `changes` replaces query parameters of the callback URL, and returns the result of the
 * sign-in.
 */
async function ends(changes: Readonly<Record<string, string | undefined>> = {}) {
  const back = await provider.authorize(await harness.signIns.begin("huggingface"), changes);
  const page = await fetch(back);
  const text = await page.text();
  for (const secret of [provider.accessToken, provider.refreshToken])
    expect(text + harness.log).not.toContain(secret);
  expect(harness.ends).toHaveLength(1);
  expect(harness.kept).toHaveLength(harness.details[0] === "ok" ? 1 : 0);
  const [end] = harness.details;
  expect(page.ok).toBe(end === "ok" || end === "denied_by_user");
  return end;
}

it("a sign-in succeeds with a correct callback", async () => {
  expect(await ends()).toBe("ok");
});

describe("the callback of a sign-in", () => {
  it.each<[string, Readonly<Record<string, string | undefined>>, LoginDetail]>([
    ["a forged state", { state: "forged" }, "state_mismatch"],
    ["no state", { state: undefined }, "state_mismatch"],
    ["an empty state", { state: "" }, "state_mismatch"],
    ["the issuer of another server", { iss: "https://evil.example" }, "issuer_mismatch"],
    ["no issuer, though the server tells it", { iss: undefined }, "issuer_mismatch"],
    [
      "a forged state and another issuer",
      { state: "x", iss: "https://e.example" },
      "state_mismatch",
    ],
    ["an error and a forged state", { error: "access_denied", state: "x" }, "state_mismatch"],
    ["no code", { code: undefined }, "exchange_failed"],
    ["a refusal", { error: "access_denied", code: undefined }, "denied_by_user"],
    ["a refusal in addition to a code", { error: "access_denied" }, "denied_by_user"],
    ["another error", { error: "server_error", code: undefined }, "exchange_failed"],
    ["an answer as a token", { response: "eyJ.e30." }, "exchange_failed"],
    ["tokens in the callback", { id_token: "eyJ.e30." }, "exchange_failed"],
  ])("causes no token request if it has %s", async (_what, changes, detail) => {
    expect(await ends(changes)).toBe(detail);
    expect(tokens()).toBe(0);
  });

  it.each([
    ["state", "state_mismatch"],
    ["iss", "issuer_mismatch"],
    ["code", "exchange_failed"],
  ] as const)("causes no token request if it has a duplicate %s", async (name, detail) => {
    const back = await provider.authorize(await harness.signIns.begin("huggingface"));
    back.searchParams.append(name, back.searchParams.get(name) ?? "");
    await fetch(back);
    expect(harness.details).toEqual([detail]);
    expect(tokens()).toBe(0);
  });

  it("is refused for a wrong issuer even if the server does not announce that it sends the issuer", async () => {
    provider.metadata = without("authorization_response_iss_parameter_supported");
    expect(await ends({ iss: "https://evil.example" })).toBe("issuer_mismatch");
  });

  it("is accepted without an issuer if the server does not announce that it sends the issuer", async () => {
    provider.metadata = without("authorization_response_iss_parameter_supported");
    expect(await ends({ iss: undefined })).toBe("ok");
  });

  it("is refused if it belongs to the sign-in at another server (mix-up attack)", async () => {
    await using other = await FakeOpenIdProvider.start();
    await using elsewhere = new SignInHarness({ huggingface: other });
    const theirs = await other.authorize(await elsewhere.signIns.begin("huggingface"));
    const { searchParams } = theirs;
    const changes = { code: searchParams.get("code") ?? "", iss: other.issuer };
    expect(await ends(changes)).toBe("issuer_mismatch");
    expect(tokens()).toBe(0);
  });
});

describe("an id token of a hostile provider", () => {
  it.each<[string, (usual: Claims) => Claims, LoginDetail]>([
    ["for another nonce", (usual) => ({ ...usual, nonce: "other" }), "exchange_failed"],
    ["without a nonce", without("nonce"), "exchange_failed"],
    ["for another client", (usual) => ({ ...usual, aud: "other" }), "exchange_failed"],
    ["that has expired", (usual) => ({ ...usual, exp: now() - 120 }), "exchange_failed"],
    [
      "not valid before tomorrow",
      (usual) => ({ ...usual, nbf: now() + 86_400 }),
      "exchange_failed",
    ],
    ["of another issuer", (usual) => ({ ...usual, iss: "https://e.example" }), "issuer_mismatch"],
    ["without a subject", without("sub"), "exchange_failed"],
  ])("is refused in the case: an id token %s", async (_what, claims, detail) => {
    provider.claims = claims;
    expect(await ends()).toBe(detail);
  });

  it("is refused if another key has signed it", async () => {
    provider.signing = keyPair().privateKey;
    expect(await ends()).toBe("exchange_failed");
  });

  it("is required: the sign-in fails if the token response has no id token", async () => {
    provider.tokens = without("id_token");
    expect(await ends()).toBe("exchange_failed");
  });

  it("is refused without a signature", async () => {
    provider.tokens = (usual) => {
      const [, claims = ""] = String(usual["id_token"]).split(".");
      const head = Buffer.from('{"alg":"none"}').toString("base64url");
      return { ...usual, id_token: `${head}.${claims}.` };
    };
    expect(await ends()).toBe("exchange_failed");
  });
});

describe("the token endpoint of a hostile provider", () => {
  const json = { "content-type": "application/json" };
  it.each<[string, (response: ServerResponse) => void]>([
    ["that fails", (response) => response.writeHead(500, json).end('{"error":"server_error"}')],
    ["that redirects", (response) => response.writeHead(307, { location: "/elsewhere" }).end()],
    [
      "that returns a page",
      (response) => response.writeHead(200, { "content-type": "text/html" }).end(),
    ],
    ["that answers without end", (response) => flood(response)],
    ["that closes the connection", (response) => void response.destroy()],
    ["that answers null", (response) => response.writeHead(200, json).end("null")],
  ])("ends the sign-in after one request: an endpoint %s", async (_what, answer) => {
    provider.instead.set("/token", answer);
    expect(await ends()).toBe("exchange_failed");
    expect(tokens()).toBe(1);
    expect(provider.asked.has("/elsewhere")).toBe(false);
  });

  it.each<[string, (response: ServerResponse) => void]>([
    ["that never answers", () => {}],
    ["that never ends its answer", (response) => void response.writeHead(200, json).write("{")],
  ])("is awaited only for a limited time: an endpoint %s", async (_what, answer) => {
    await harness[Symbol.asyncDispose]();
    harness = new SignInHarness({ huggingface: provider, requestMs: IMPATIENT_MS });
    provider.instead.set("/token", answer);
    expect(await ends()).toBe("exchange_failed");
    expect(harness.log).toContain('"reason":"unreachable"');
  });

  it.each([
    ["with a line end in it", "a\r\nb"],
    ["that is empty", ""],
    ["that is too long", "a".repeat(9000)],
    ["that is a number", 7],
  ])("ends the sign-in if it returns an access token %s", async (_what, token) => {
    provider.tokens = (usual) => ({ ...usual, access_token: token });
    expect(await ends()).toBe("exchange_failed");
  });

  it("that returns a session without an end causes a session with an upper limit", async () => {
    provider.tokens = (usual) => ({ ...usual, expires_in: 1e300 });
    expect(await ends()).toBe("ok");
    expect(new Date(harness.session.expiresAtMs ?? 0).getFullYear()).toBeLessThan(2100);
  });

  it.each([
    [400, '{"error":"invalid_grant"}', "unauthorized"],
    [401, '{"error":"invalid_client"}', "unauthorized"],
    [429, '{"error":"slow_down"}', "rate_limited"],
    [503, "", "provider_failed"],
    [200, '{"token_type":"bearer"}', "bad_response"],
    [302, "", "bad_response"],
  ])("that answers a renewal with %i (body %s) causes the error %s", async (status, body, code) => {
    expect(await ends()).toBe("ok");
    provider.instead.set("/token", (response) => response.writeHead(status, json).end(body));
    const signal = AbortSignal.timeout(5000);
    const error: unknown = await harness.signIns
      .refresh("huggingface", harness.session, signal)
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code });
    expect(JSON.stringify(error) + String(error)).not.toContain(provider.refreshToken);
  });
});

describe("the metadata of a hostile provider", () => {
  it.each<[string, (usual: Claims) => Claims]>([
    ["of another issuer", (usual) => ({ ...usual, issuer: "https://evil.example" })],
    ["without an authorization endpoint", without("authorization_endpoint")],
    [
      "with an authorization endpoint without https",
      (usual) => ({ ...usual, authorization_endpoint: "http://example.org/authorize" }),
    ],
    [
      "with a script as the authorization endpoint",
      (usual) => ({ ...usual, authorization_endpoint: "javascript:alert(1)" }),
    ],
    [
      "with a registration without https",
      (usual) => ({ ...usual, registration_endpoint: "http://example.org/register" }),
    ],
    ["without a registration", without("registration_endpoint")],
  ])("cause no sign-in in the case: metadata %s", async (_what, metadata) => {
    provider.metadata = metadata;
    await expect(harness.signIns.begin("huggingface")).rejects.toMatchObject({
      code: "bad_response",
    });
    expect(harness.signIns.pending()).toEqual([]);
    expect(harness.ends).toEqual([]);
  });

  it("with a token endpoint without https cause no request that contains the code", async () => {
    provider.metadata = (usual) => ({ ...usual, token_endpoint: "http://example.org/token" });
    expect(await ends()).toBe("exchange_failed");
    expect(harness.log).toContain('"reason":"bad_response"');
  });

  it("are awaited and read only up to a limit", async () => {
    await harness[Symbol.asyncDispose]();
    harness = new SignInHarness({ huggingface: provider, requestMs: IMPATIENT_MS });
    provider.instead.set("/.well-known/openid-configuration", () => {});
    await expect(harness.signIns.begin("huggingface")).rejects.toMatchObject({
      code: "unreachable",
    });
    provider.instead.set("/.well-known/openid-configuration", flood);
    await expect(harness.signIns.begin("huggingface")).rejects.toMatchObject({
      code: "bad_response",
    });
    expect(harness.ends).toEqual([]);
  });

  it("that require a client with a secret are refused", async () => {
    provider.instead.set("/register", (response) =>
      response.writeHead(201, { "content-type": "application/json" }).end(
        JSON.stringify({
          client_id: "x",
          client_secret: "s",
          client_secret_expires_at: 0,
          token_endpoint_auth_method: "client_secret_basic",
        }),
      ),
    );
    await expect(harness.signIns.begin("huggingface")).rejects.toThrow("ASSISTANT_OAUTH_CONFIG");
  });
});

describe("the revocation of a session", () => {
  it("does nothing if the provider has no revocation endpoint", async () => {
    expect(await ends()).toBe("ok");
    await harness.signIns.revoke("huggingface", harness.session);
    expect(harness.log).not.toContain("could not be revoked");
  });

  it("stops after a failure of the provider", async () => {
    provider.metadata = (usual) => ({ ...usual, revocation_endpoint: `${provider.issuer}/gone` });
    expect(await ends()).toBe("ok");
    await harness.signIns.revoke("huggingface", harness.session);
    expect(harness.log).toContain("could not be revoked");
    expect(harness.log).not.toContain(provider.accessToken);
  });
});

it("a sign-in ends at once when it is cancelled during the exchange", async () => {
  const waiting: ServerResponse[] = [];
  provider.instead.set("/token", (response) => void waiting.push(response));
  const back = await provider.authorize(await harness.signIns.begin("huggingface"));
  const page = fetch(back);
  await vi.waitFor(() => expect(waiting).toHaveLength(1), WAIT_OPTIONS);
  harness.signIns.cancel("huggingface");
  expect(harness.details).toEqual(["cancelled"]);
  expect(await (await page).text()).toContain("was cancelled");
  expect(harness.kept).toEqual([]);
});

it("a self-signed certificate is refused in a sign-in, whatever the environment variables say", async () => {
  await using impostor = await TestProvider.start({ tls: true });
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());
  await using other = new SignInHarness({
    huggingface: { issuer: new URL(impostor.baseUrl).origin },
  });
  await expect(other.signIns.begin("huggingface")).rejects.toMatchObject({ code: "unreachable" });
  expect(impostor.requests).toEqual([]);
});

function now(): number {
  return Math.floor(Date.now() / 1000);
}

function without(name: string): (usual: Claims) => Claims {
  return (usual) => Object.fromEntries(Object.entries(usual).filter(([key]) => key !== name));
}

/** Sends data without an end, until the client closes the connection. */
function flood(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" });
  const part = Buffer.alloc(65_536, " ");
  const more = () => {
    while (!response.destroyed && response.write(part));
  };
  response.on("drain", more);
  more();
}
