import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { createGzip } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { catchAssistantError } from "../../../../support/provider/catch-assistant-error.ts";
import {
  createChatBody,
  KEY,
  ProviderHarness,
  readText,
} from "../../../../support/provider/provider-harness.ts";
import { redirect } from "../../../../support/provider/scripted-response.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const BOMB_BYTES = 256 * 2 ** 20;

describe.each([
  ["http", false],
  ["https", true],
])("over %s", (_, tls) => {
  let harness: ProviderHarness;
  beforeAll(async () => {
    harness = await ProviderHarness.start({ tls });
  });
  afterAll(() => harness[Symbol.asyncDispose]());

  const raw = (bytes: string, afterwards: "end" | "cut" | "hang" = "hang") =>
    harness.provider.next({ type: "raw", bytes, afterwards });

  it("a provider's answers are received piece by piece after a valid request", async () => {
    const answer = await harness.open({ body: createChatBody("two words", { stream: true }) });
    const text = await readText(answer);

    expect(answer).toMatchObject({ status: 200, contentType: "text/event-stream" });
    expect(text).toContain('"content":" words"');
    expect(text).toMatch(/data: \[DONE\]\n\n$/);
    const asked = harness.provider.requests.at(-1);
    expect(asked).toMatchObject({ method: "POST", path: "/v1/chat/completions" });
    expect(asked?.body).toEqual(createChatBody("two words", { stream: true }));
    expect(asked?.headers).toMatchObject({
      authorization: `Bearer ${KEY}`,
      "content-type": "application/json",
      "accept-encoding": "identity",
    });
  });

  it("a provider's answers are received for a request with neither key nor body", async () => {
    const answer = await harness.open({ method: "GET", path: "/models", bearer: undefined });

    expect(answer.contentType).toBe("application/json");
    expect(JSON.parse(await readText(answer))).toMatchObject({ object: "list" });
    const asked = harness.provider.requests.at(-1);
    expect(asked).toMatchObject({ method: "GET", path: "/v1/models", text: "" });
    expect(asked?.headers.authorization).toBeUndefined();
    expect(asked?.headers["content-type"]).toBeUndefined();
  });

  it("a provider's answers keep characters whole however the body is split into chunks", async () => {
    const body = Buffer.from("data: ä€😀\n\n");
    const chunks = [...body].map((byte) => `1\r\n${String.fromCharCode(byte)}\r\n`).join("");
    const head = "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked";
    harness.provider.next({
      type: "raw",
      bytes: Buffer.from(`${head}\r\n\r\n${chunks}0\r\n\r\n`, "latin1"),
      afterwards: "hang",
    });

    expect(await harness.text()).toBe("data: ä€😀\n\n");
  });

  it("a provider's answer may have no body", async () => {
    harness.provider.next({ type: "status", status: 204 });
    const answer = await harness.open();

    expect(answer).toMatchObject({ status: 204, contentType: "" });
    expect(await readText(answer)).toBe("");
  });

  it("a provider's answer may follow informational responses, which are skipped", async () => {
    raw(
      "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" +
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
    );

    expect(await harness.text()).toBe("hi");
  });

  it("a provider's answer without a content-length ends when the server closes the connection", async () => {
    raw("HTTP/1.1 200 OK\r\ncontent-type: Application/JSON; charset=x\r\n\r\n{}", "end");
    const answer = await harness.open();

    expect(answer.contentType).toBe("application/json");
    expect(await readText(answer)).toBe("{}");
  });

  it.each([
    ["SSH", "SSH-2.0-OpenSSH_9.6\r\n", "hang"],
    ["an incomplete head", "HTTP/1.1 200 OK\r\ncontent-ty", "cut"],
    ["an incomplete status line", "HT", "cut"],
    ["a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", "hang"],
    ["an invalid status", "HTTP/1.1 099 OK\r\n\r\n", "hang"],
    [
      "contradictory lengths",
      "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
      "end",
    ],
    [
      "a length and chunks",
      "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
      "end",
    ],
    ["a length below zero", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "end"],
    ["100 to who did not ask", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "hang"],
    [
      "another protocol",
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
      "hang",
    ],
    ["one endless header", `HTTP/1.1 200 OK\r\nx: ${"a".repeat(100_000)}`, "hang"],
    ["endless headers", `HTTP/1.1 200 OK\r\n${"x: 1234567\r\n".repeat(10_000)}`, "hang"],
    ["status 600", "HTTP/1.1 600 What\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", "hang"],
    ["status 304", "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n", "hang"],
  ] as const)(
    "a provider's answer is rejected if it is not valid HTTP: %s",
    async (_name, bytes, afterwards) => {
      raw(bytes, afterwards);

      expect(await catchAssistantError(harness.text())).toMatchObject({ code: "bad_response" });
    },
  );

  it.each([
    [
      "garbage between chunks",
      "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\nzz\r\n",
      "hang",
      "bad_response",
    ],
    [
      "a chunk longer than its size",
      "transfer-encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
      "hang",
      "bad_response",
    ],
    ["a chunk without end", "transfer-encoding: chunked\r\n\r\nff\r\nhi", "end", "cut_off"],
    ["no last chunk", "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", "end", "cut_off"],
    ["fewer bytes than its length", "content-length: 10\r\n\r\nhi", "end", "cut_off"],
    ["a reset", "content-length: 10\r\n\r\nhi", "cut", "cut_off"],
  ] as const)(
    "a provider's answer is rejected while its body is read, with %s",
    async (_name, rest, afterwards, code) => {
      raw(`HTTP/1.1 200 OK\r\n${rest}`, afterwards);
      const answer = await harness.open();
      let seen = "";
      const error = await catchAssistantError(
        (async () => {
          for await (const piece of answer.body()) seen += Buffer.from(piece).toString();
        })(),
      );

      expect(error.code).toBe(code);
      // The caller receives the data that arrived before the fault.
      expect(seen).toMatch(/^hi/);
    },
  );

  it("a provider's answer is no longer awaited if its head does not arrive or never ends", async () => {
    const { patient, clock } = await startPatient(tls);
    for (const turn of [
      { type: "hang" },
      { type: "raw", bytes: "HTTP/1.1 103 Early Hints\r\n\r\n", afterwards: "hang" },
    ] as const) {
      patient.provider.next(turn);
      const before = patient.provider.requests.length;
      const failing = catchAssistantError(patient.open({ limits: { headMs: 30 } }));
      await patient.provider.until(({ requests }) => requests.length > before);
      await clock.advance(30);
      expect(await failing).toMatchObject({
        code: "timeout",
        message: "the provider acme has sent nothing for 0.03 s",
      });
    }
    await patient.untilQuiet();
    expect(patient.clock.pending).toBe(0);
  });

  it("a provider's answer fails when its body stops arriving, after the received data was yielded", async () => {
    const { patient, clock } = await startPatient(tls);
    patient.provider.next({
      type: "chat",
      text: ["one", "two"],
      afterwards: { after: 1, do: "hang" },
    });
    const answer = await patient.open({ limits: { silentMs: 30 } });
    let seen = "";
    const failing = catchAssistantError(
      (async () => {
        for await (const piece of answer.body()) seen += Buffer.from(piece).toString();
      })(),
    );
    await expect.poll(() => seen).toContain('"content":"one"');
    await clock.advance(30);

    expect((await failing).code).toBe("timeout");
    await patient.untilQuiet();
    expect(patient.clock.pending).toBe(0);
  });

  it("a provider's answer may arrive slowly, and may be read slowly", async () => {
    const { patient, clock } = await startPatient(tls);
    let seen = "";
    const text = ["a", "b", "c", "d"];
    // Each piece is sent shortly before the limit, which counts from the arrival of the previous one.
    const before = async (piece: number) => {
      const previous = piece === 0 ? '"role":"assistant"' : `"content":"${text[piece - 1]}"`;
      await expect.poll(() => seen).toContain(previous);
      await clock.advance(900);
    };
    patient.provider.next({ type: "chat", text, before });
    const slow = await patient.open({ limits: { silentMs: 1_000, headMs: 1_000 } });
    for await (const piece of slow.body()) seen += Buffer.from(piece).toString();
    const answer = await patient.open({ limits: { silentMs: 20 } });
    await clock.advance(10_000);

    expect(seen).toContain("[DONE]");
    expect(await readText(answer)).toContain("[DONE]");
  });

  it("a provider's answer fails if its body is too long, and is then no longer read", async () => {
    harness.provider.next({
      type: "chat",
      text: Array.from({ length: 100_000 }, () => "x".repeat(1_000)),
    });
    const error = await catchAssistantError(harness.text({ limits: { bytesMax: 100_000 } }));

    expect(error).toMatchObject({ code: "bad_response" });
    expect(error.message).toContain("more than 100000 bytes");
    await harness.provider.until(({ requests }) => requests.at(-1)?.state === "left");
  });

  it("a provider's answer is read only a limited amount ahead of the caller", async () => {
    let sent = 0;
    harness.provider.next({
      type: "chat",
      text: Array.from({ length: 4_000 }, () => "x".repeat(10_000)),
      before: (piece) => {
        sent = piece;
        return undefined;
      },
    });
    const left = new AbortController();
    const answer = await harness.open({ signal: left.signal, limits: { bytesMax: 2 ** 30 } });
    let before = -1;
    while (sent !== before) {
      before = sent;
      await shortWhile();
    }

    // The socket buffers hold fewer than 2,000 of the 4,000 pieces; without back-pressure all would have been sent.
    expect(sent).toBeLessThan(2_000);
    left.abort(new Error("enough"));
    await expect(readText(answer)).rejects.toThrow("enough");
  });

  it("a provider's answer is refused if it is compressed", async () => {
    const packed = await buffer(Readable.from(zeros(BOMB_BYTES)).pipe(createGzip({ level: 1 })));
    const bomb = {
      type: "status",
      status: 200,
      headers: { "content-encoding": "gzip" },
      body: packed,
    } as const;
    harness.provider.next(bomb, { ...bomb, status: 400 });
    const before = process.memoryUsage().rss;

    expect(await catchAssistantError(harness.open())).toMatchObject({ code: "bad_response" });
    const refused = await catchAssistantError(harness.open());
    expect(refused).toMatchObject({ code: "invalid_request" });
    expect(refused.message).not.toContain("It says");
    expect(process.memoryUsage().rss - before).toBeLessThan(BOMB_BYTES / 2);
  });

  it("a provider's answer may have the encoding identity", async () => {
    raw(
      "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-encoding: Identity\r\ncontent-length: 2\r\n\r\nhi",
    );

    expect(await harness.text()).toBe("hi");
  });

  it.each([301, 302, 303, 307, 308])(
    "a redirect with %i is an error and is not followed",
    async (status) => {
      await using elsewhere = await ProviderHarness.start();
      const sofar = harness.provider.requests.length;
      harness.provider.next(
        redirect(`${elsewhere.provider.baseUrl}/chat/completions?key=${KEY}`, status),
      );
      const error = await catchAssistantError(harness.open());

      expect(error).toMatchObject({ code: "bad_response", status });
      expect(error.message).toContain(`redirects to ${elsewhere.provider.origin}`);
      expect(error.message).not.toContain("key=");
      expect(elsewhere.provider.connectionsTotal).toBe(0);
      expect(harness.provider.requests.length - sofar).toBe(1);
    },
  );

  it("a provider's answer has no media type if the media type header is invalid", async () => {
    for (const type of [`text/${KEY}`, "nonsense", "text/<b>", `x; ${KEY}`]) {
      harness.provider.next({ type: "status", status: 200, headers: { "content-type": type } });
      expect((await harness.open()).contentType).toBe("");
    }
  });
});

/** Starts a provider, and a client whose time limits only count when the test advances the clock. */
async function startPatient(tls: boolean) {
  const clock = new VirtualClock();
  const patient = await ProviderHarness.start({ tls, clock });
  onTestFinished(() => patient[Symbol.asyncDispose]());
  return { patient, clock };
}

function shortWhile(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 40);
  });
}

function* zeros(bytes: number): Generator<Buffer> {
  const piece = Buffer.alloc(2 ** 20);
  for (let sent = 0; sent < bytes; sent += piece.length) yield piece;
}
