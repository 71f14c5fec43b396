import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ProviderRefusal } from "../../../../../src/assistant/remote/provider-http/provider-refusal.ts";
import { redactKey } from "../../../../../src/assistant/remote/provider-http/redact-key.ts";
import { sanitizeProviderMessage } from "../../../../../src/assistant/remote/provider-http/sanitize-provider-message.ts";
import { catchAssistantError } from "../../../../support/provider/catch-assistant-error.ts";
import { KEY, ProviderHarness } from "../../../../support/provider/provider-harness.ts";
import { refusal } from "../../../../support/provider/scripted-response.ts";

let harness: ProviderHarness;
beforeAll(async () => {
  harness = await ProviderHarness.start();
});
afterAll(() => harness[Symbol.asyncDispose]());

it.each([
  [400, "invalid_request"],
  [401, "unauthorized"],
  [402, "rate_limited"],
  [403, "unauthorized"],
  [404, "model_not_found"],
  [405, "invalid_request"],
  [408, "timeout"],
  [409, "invalid_request"],
  [413, "invalid_request"],
  [422, "invalid_request"],
  [429, "rate_limited"],
  [500, "provider_failed"],
  [502, "provider_failed"],
  [503, "provider_failed"],
  [504, "provider_failed"],
  [529, "provider_failed"],
])("the status %i becomes the error %s, with the provider's message", async (status, code) => {
  harness.provider.next(refusal(status, "the reason\n  is this", { "retry-after": "7" }));
  const error = await catchAssistantError(harness.open());

  expect(error).toBeInstanceOf(ProviderRefusal);
  expect(error).toMatchObject({ code, status, retryAfterSeconds: 7 });
  expect(error.message).toMatch(/^the provider acme .*\. It says: the reason is this$/);
});

it("the connection stays open for the next request after a refusal", async () => {
  await using own = await ProviderHarness.start();
  own.provider.next(refusal(429, "slowly"), refusal(500, "broken"));
  await catchAssistantError(own.open());
  await catchAssistantError(own.open());
  await own.text();

  expect(own.provider.connectionsTotal).toBe(1);
});

it("Retry-After is read as seconds or as a date, and any other value is ignored", async () => {
  expect(await secondsOf("120")).toBe(120);
  expect(await secondsOf("0")).toBe(0);
  const inAnHour = await secondsOf(new Date(Date.now() + 3_600_000).toUTCString());
  expect(inAnHour).toBeGreaterThan(3_590);
  expect(inAnHour).toBeLessThanOrEqual(3_600);
  expect(await secondsOf(new Date(0).toUTCString())).toBe(0);
  expect(await secondsOf("999999999")).toBe(86_400);
  expect(await secondsOf("soon")).toBeUndefined();
});

describe("the provider's message in a refusal", () => {
  it.each([
    ['{"error":{"message":"no"}}', "no"],
    ['{"error":"no"}', "no"],
    ['{"message":"no"}', "no"],
    ['{"detail":"no"}', "no"],
    ['{"error":{"message":42}}', undefined],
    ['{"a":1}', undefined],
    ["[]", undefined],
    ['"no"', "no"],
    ["plain\r\n\ttext ", "plain text"],
    ["", undefined],
    ["   \n ", undefined],
    ["<!DOCTYPE html><html><body>502</body></html>", undefined],
    ["\u001b[31mred\u001b[0m \u202eover\u2066", "[31mred [0m over"],
  ])("is the readable text of the body: for %j it is %j", (body, words) => {
    expect(sanitizeProviderMessage(body, KEY)).toBe(words);
  });

  it("is limited to 300 whole characters", () => {
    expect(sanitizeProviderMessage("😀".repeat(1_000), KEY)).toBe(`${"😀".repeat(299)}…`);
    expect(sanitizeProviderMessage("a".repeat(299), KEY)).toBe("a".repeat(299));
  });

  it("is the part of an endless or stalled body that has arrived", async () => {
    harness.provider.next({ type: "status", status: 400, body: "y".repeat(10 * 2 ** 20) });
    expect((await catchAssistantError(harness.open())).message).toMatch(/It says: y{299}…$/);

    harness.provider.next({
      type: "raw",
      bytes: "HTTP/1.1 401 No\r\ncontent-length: 100\r\n\r\nnot you",
      afterwards: "hang",
    });
    const error = await catchAssistantError(harness.open({ limits: { silentMs: 30 } }));
    expect(error).toMatchObject({ code: "unauthorized", status: 401 });
    expect(error.message).toMatch(/It says: not you$/);
  });
});

describe("the key for a provider", () => {
  const base64 = Buffer.from(KEY).toString("base64");
  it.each([
    ["the key unchanged", KEY],
    ["with Bearer", `Bearer ${KEY}`],
    ["its beginning", KEY.slice(0, 12)],
    ["its middle", `…${KEY.slice(9, 25)}…`],
    ["its end", `****${KEY.slice(-8)}`],
    ["the key without its middle", `${KEY.slice(0, 8)}...${KEY.slice(-8)}`],
    ["twice", `${KEY}${KEY}`],
    ["in Base64", base64],
    ["in a URL", `https://x/?k=${encodeURIComponent(KEY)}`],
    ["the key where the message is cut off", "z".repeat(290) + KEY],
  ])("is removed from the message of an error that the provider sends: %s", async (_, echo) => {
    const bodies = [
      JSON.stringify({ error: { message: `wrong key: ${echo} given` } }),
      `wrong key: ${echo} given`,
      JSON.stringify({ detail: echo }),
    ];
    for (const body of bodies) {
      harness.provider.next({
        type: "status",
        status: 401,
        body,
        headers: { "www-authenticate": `Bearer ${KEY}`, "x-key": KEY },
      });
      const error = await catchAssistantError(harness.open());
      expect(partsIn(JSON.stringify([error, error.message, error.stack, error.cause]))).toEqual([]);
    }
  });

  it("is removed from the error for a redirect", async () => {
    const to = `https://${KEY.slice(0, 20)}.example/${KEY}`;
    harness.provider.next({ type: "status", status: 307, headers: { location: to } });

    expect(partsIn((await catchAssistantError(harness.open())).message)).toEqual([]);

    // A host name arrives in lower case, whatever its original spelling.
    const bearer = "sk-CaNaRyWithCapitals";
    harness.provider.next({
      type: "status",
      status: 302,
      headers: { location: `https://${bearer}.example/` },
    });
    const { message } = await catchAssistantError(harness.open({ bearer }));
    expect(message).toContain("redirects to https://[key].example");
    expect(message.toLowerCase()).not.toContain("canary");
  });

  it("is removed from the error for an answer that is not HTTP", async () => {
    harness.provider.next({ type: "raw", bytes: `${KEY}\r\n\r\n`, afterwards: "hang" });
    const error = await catchAssistantError(harness.open());

    expect(error.code).toBe("bad_response");
    expect(error.cause).toBeUndefined();
    expect(partsIn(error.message + String(error.stack))).toEqual([]);
  });

  it("is removed from a text even if only eight characters of the key in a row occur in it", () => {
    const key = fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 60 });
    const echo = fc.tuple(key, fc.array(fc.oneof(fc.string(), fc.tuple(fc.nat(60), fc.nat(60)))));
    fc.assert(
      fc.property(echo, ([secret, pieces]) => {
        const text = pieces
          .map((piece) => (typeof piece === "string" ? piece : secret.slice(...piece)))
          .join("");
        const clean = redactKey(text, secret).replaceAll("[key]", "\u0000");
        const length = Math.min(8, secret.length);
        for (let at = 0; at + length <= secret.length; at++)
          expect(clean).not.toContain(secret.slice(at, at + length));
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    `${KEY.slice(0, 4)}****${KEY.slice(-4)}`,
    `${KEY.slice(0, 7)}***`,
    `****${KEY.slice(-4)}`,
    `${KEY.slice(0, 3)}...${KEY.slice(-3)}`,
    `${KEY.slice(0, 6)}…${KEY.slice(-4)}`,
    `${KEY.slice(0, 5)}XXXXXXXX${KEY.slice(-2)}`,
    `${KEY.slice(0, 4)}[redacted]${KEY.slice(-4)}`,
    `${KEY.slice(0, 4)}••••…••••`,
    `${KEY.slice(0, 4)}____${KEY.slice(-4)}`,
    `${KEY.slice(0, 4)}■■■■${KEY.slice(-4)}`,
    `${KEY.slice(0, 5)} ... ${KEY.slice(-4)}`,
    KEY.slice(-4),
  ])("is removed from a message that shows its beginning or its end: %s", (shown) => {
    const said = JSON.stringify({ error: { message: `Incorrect API key: ${shown}. Try again.` } });
    expect(sanitizeProviderMessage(said, KEY)).toBe("Incorrect API key: [key]. Try again.");
  });

  it.each(["", ":", "me:", "Bearer "])("is removed in Base64 after the text %j", (before) => {
    for (const encoding of ["base64", "base64url"] as const) {
      const encoded = Buffer.from(`${before}${KEY}:x`).toString(encoding);
      expect(redactKey(encoded, KEY)).toMatch(/^.{0,12}\[key\].{0,8}$/);
    }
  });

  it("is the only text that is removed from a message", () => {
    const words = "use a key such as sk-... or sk-***, not *** (see #4...)";
    expect(redactKey(words, KEY)).toBe(words);
    expect(redactKey("the model sk-other is unknown", KEY)).toBe("the model sk-other is unknown");
    expect(redactKey(`a ${KEY} b`, KEY)).toBe("a [key] b");
    expect(redactKey("anything", undefined)).toBe("anything");
  });

  it.each(["line\nbreak", "sp ace", "ümlaut", "", "nul\u0000"])(
    "causes an error without a request to the provider if the key is %j",
    async (bearer) => {
      const before = harness.provider.requests.length;

      expect(await catchAssistantError(harness.open({ bearer }))).toMatchObject({
        code: "unauthorized",
      });
      expect(harness.provider.requests).toHaveLength(before);
    },
  );
});

/** Returns the parts of the key, of eight characters each, that a text contains. */
function partsIn(text: string): readonly string[] {
  return Array.from({ length: KEY.length - 7 }, (_, at) => KEY.slice(at, at + 8)).filter((part) =>
    text.includes(part),
  );
}

async function secondsOf(value: string): Promise<number | undefined> {
  harness.provider.next(refusal(429, "slowly", { "retry-after": value }));
  return (await catchAssistantError(harness.open())).retryAfterSeconds;
}
