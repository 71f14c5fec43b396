import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BusCallError } from "../../../src/dbus/port.ts";
import { TestAuthority } from "../../support/provider/certificates.ts";
import {
  redirect,
  refusal,
  type ScriptedResponse,
} from "../../support/provider/scripted-response.ts";
import { TestProvider } from "../../support/provider/test-provider.ts";
import { REMOTE_MODEL, RemoteCompanionHarness } from "../../support/remote-companion-harness.ts";

const DAY_MS = 86_400_000;
const UNREACHABLE = "dev.assistant.Error.Unreachable";
const BAD_RESPONSE = "dev.assistant.Error.BadResponse";
const FAILED = "dev.assistant.Error.Failed";
const LIMITS_EXCEEDED = "org.freedesktop.DBus.Error.LimitsExceeded";
const chunked =
  "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

let harness: RemoteCompanionHarness;
const others: TestProvider[] = [];
/** The provider's response to the next request. */
let turn: ScriptedResponse | undefined;

beforeAll(async () => {
  const authority = await TestAuthority.create("Another test authority");
  const stranger = await TestAuthority.create();
  harness = await RemoteCompanionHarness.open({
    script: () => turn,
    extraAuthorities: [authority.ca],
  });
  const past = {
    validFrom: new Date(Date.now() - 9 * DAY_MS),
    validUntil: new Date(Date.now() - DAY_MS),
  };
  const certificates = {
    expired: await authority.issue(past),
    renamed: await authority.issue({ names: ["elsewhere.example"] }),
    unknown: await stranger.issue(),
    good: await authority.issue(),
  };
  for (const [id, certificate] of Object.entries(certificates)) {
    const provider = await TestProvider.start({ certificate });
    others.push(provider);
    await harness.frontend.call("Remote1", "AddProvider", "sss", id, "", provider.baseUrl);
  }
  // No process listens at the address of the provider "gone" any more.
  const gone = await TestProvider.start({ tls: true });
  await harness.frontend.call("Remote1", "AddProvider", "sss", "gone", "", gone.baseUrl);
  await gone[Symbol.asyncDispose]();
});
afterAll(async () => {
  for (const provider of others) await provider[Symbol.asyncDispose]();
  await harness?.[Symbol.asyncDispose]();
});

interface Outcome {
  readonly retryAfter?: string;
  /** The HTTP status of the companion's answer to a chat request. */
  readonly status: number;
  /** The error code in the HTTP answer and in the signal Finished. */
  readonly code: string;
  /** The error code with which the method ListModels fails for the provider. */
  readonly list: string;
  /** The number of attempts of each chat request. A request for the list of models is never repeated. */
  readonly attempts: number;
}

/** Calls a provider over the companion's port, the overlay and ListModels at the same time, and returns the errors. */
async function getOutcome(provider: string): Promise<Outcome> {
  const model = `remote:${provider}:test-model`;
  const before = harness.entries("egress.send").length;
  const asked = harness.cloudProvider.requests.length;
  const [http, turnOfBus, list] = await Promise.all([
    harness.chat(model, "Hello").result,
    harness.frontend
      .ask("Hello", { model_hint: model, lane: "chat" })
      .then((told) => harness.frontend.waitForEnd(told)),
    harness.frontend.call("Remote1", "ListModels", "s", provider).then(
      () => "answered",
      (error: unknown) => (error instanceof BusCallError ? error.busName : String(error)),
    ),
  ]);
  expect(turnOfBus.end).toMatchObject({
    status: http.code === undefined ? "completed" : "failed",
    detail: { code: http.code ?? "ok" },
  });
  const entries = harness.entries("egress.send").slice(before);
  const chats = entries.filter(({ body }) => body.fields["kind"] === "generate");
  expect(entries.length - chats.length).toBe(1);
  if (provider === "cloud")
    expect(harness.cloudProvider.requests.length - asked).toBe(entries.length);
  const { "retry-after": retryAfter } = http.headers;
  return {
    status: http.status,
    code: http.code ?? "ok",
    list,
    attempts: chats.length / 2,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
}

describe("a connection to a provider", () => {
  it.each(["expired", "renamed", "unknown", "gone"])(
    "is reported as unreachable if the provider's certificate or address is wrong (%s)",
    async (provider) => {
      expect(await getOutcome(provider)).toEqual({
        status: 502,
        code: "unreachable",
        list: UNREACHABLE,
        attempts: 3,
      });
      for (const { requests } of others) expect(requests).toEqual([]);
    },
  );

  it("is used if the provider's certificate is valid", async () => {
    const outcome = { status: 200, code: "ok", list: "answered", attempts: 1 };
    expect(await getOutcome("good")).toEqual(outcome);
  });
});

const page = "<!doctype html><title>Sign in</title>";
const json = { "content-type": "application/json" };
const begun: ScriptedResponse = {
  type: "chat",
  text: ["One"],
  afterwards: { after: 1, do: "cut" },
};

const answers: readonly (readonly [string, ScriptedResponse, number, string, string, number])[] = [
  ["a reset", { type: "reset" }, 502, "unreachable", UNREACHABLE, 3],
  ["no HTTP", rawResponse("SSH-2.0-OpenSSH_9.6\r\n"), 502, "bad_response", BAD_RESPONSE, 1],
  [
    "a page",
    status(200, page, { "content-type": "text/html" }),
    502,
    "bad_response",
    BAD_RESPONSE,
    1,
  ],
  ["no JSON", status(200, '{"choices":', json), 502, "bad_response", BAD_RESPONSE, 1],
  ["another JSON", status(200, { ok: true }), 502, "bad_response", BAD_RESPONSE, 1],
  ["a redirect", redirect("https://elsewhere.example/v1"), 502, "bad_response", BAD_RESPONSE, 1],
  [
    "a compressed body",
    status(200, gzipSync("{}"), { ...json, "content-encoding": "gzip" }),
    502,
    "bad_response",
    BAD_RESPONSE,
    1,
  ],
  [
    "endless headers",
    status(200, {}, { "x-endless": "x".repeat(48 * 1024) }),
    502,
    "bad_response",
    BAD_RESPONSE,
    1,
  ],
  [
    "an endless body",
    { type: "raw", bytes: endlessBody(17), afterwards: "hang" },
    502,
    "bad_response",
    BAD_RESPONSE,
    1,
  ],
  ["a truncated body", rawResponse(`${chunked}5\r\n{"cho\r\n`), 502, "cut_off", BAD_RESPONSE, 1],
  ["400", refusal(400, "no"), 400, "invalid_request", "org.freedesktop.DBus.Error.InvalidArgs", 1],
  ["401", refusal(401, "no"), 401, "unauthorized", "dev.assistant.Error.Unauthorized", 1],
  ["403", refusal(403, "no"), 401, "unauthorized", "dev.assistant.Error.Unauthorized", 1],
  ["404", refusal(404, "no"), 404, "model_not_found", BAD_RESPONSE, 1],
  ["408", refusal(408, "no"), 504, "timeout", FAILED, 1],
  ["429", refusal(429, "no"), 429, "rate_limited", LIMITS_EXCEEDED, 1],
  ["500", refusal(500, "no"), 502, "provider_failed", FAILED, 1],
  ["502", refusal(502, "no"), 502, "provider_failed", FAILED, 3],
  ["503", refusal(503, "no"), 502, "provider_failed", FAILED, 3],
  ["504", refusal(504, "no"), 502, "provider_failed", FAILED, 3],
  ["a truncated stream", begun, 200, "cut_off", BAD_RESPONSE, 1],
];

describe("a provider that answers with an error", () => {
  it.each(answers)(
    "is reported with its status and code: %s",
    async (_, answer, httpStatus, code, list, attempts) => {
      turn = answer;
      expect(await getOutcome("cloud")).toEqual({ status: httpStatus, code, list, attempts });
    },
  );

  it.each([
    [429, "7", 1, "rate_limited", 429],
    [503, "60", 1, "provider_failed", 502],
    [503, "1", 3, "provider_failed", 502],
  ])(
    "is not tried again before the time in its Retry-After header (status %i, %s s)",
    async (...row) => {
      const [answered, retryAfter, attempts, code, httpStatus] = row;
      turn = refusal(answered, "later", { "retry-after": retryAfter });
      expect(await getOutcome("cloud")).toMatchObject({
        status: httpStatus,
        code,
        attempts,
        retryAfter,
      });
    },
  );

  it("is used again as soon as it answers correctly", async () => {
    turn = undefined;
    const outcome = { status: 200, code: "ok", list: "answered", attempts: 1 };
    expect(await getOutcome("cloud")).toEqual(outcome);
    expect(await harness.chat(REMOTE_MODEL, "Hello").readAnswer()).toBe("You said: Hello");
    const complaints = harness.companion.lines.filter((line) => /"level":[56]0|Warning/.test(line));
    expect(complaints).toEqual([]);
  });
});

function status(
  code: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): ScriptedResponse {
  return { type: "status", status: code, body, headers };
}

function rawResponse(bytes: string): ScriptedResponse {
  return { type: "raw", bytes, afterwards: "cut" };
}

/** Returns a response whose body is an unfinished line of the given number of megabytes. */
function endlessBody(megabytes: number): Buffer {
  const answerHead = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
  return Buffer.concat([Buffer.from(`${answerHead}"`), Buffer.alloc(megabytes * 2 ** 20, "x")]);
}
