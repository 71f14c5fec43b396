import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type InferenceHttpHarness,
  RawClient,
  rawPost,
  readDataLines,
  SHORT_WAIT,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { accepted, forever, Gate, says } from "../../support/scripted-service.ts";

let harness: InferenceHttpHarness;
beforeEach(async () => {
  harness = await startInferenceHttp();
});
afterEach(() => harness[Symbol.asyncDispose]());

const path = "/v1/chat/completions";
const ask = JSON.stringify({ messages: [{ role: "user", content: "hi" }] });
const askStream = JSON.stringify({ messages: [{ role: "user", content: "hi" }], stream: true });
const get = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";

describe("a client that disconnects", () => {
  test.each([
    ["a whole answer", ask],
    ["a stream", askStream],
  ])(
    "causes its request for %s to end, both while the request is queued and while it is answered",
    async (_, body) => {
      for (const events of [
        [],
        [accepted],
        [accepted, { type: "text", choice: 0, text: "a" }] as const,
      ]) {
        harness.service.script = async function* (_request, signal) {
          yield* events;
          await forever(signal);
        };
        const client = new RawClient(harness.port).write(rawPost(path, body));
        await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(1);
        client.socket.destroy();
        await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(0);
      }
    },
  );

  test("is detected even if it closes only its sending half", async () => {
    harness.service.script = async function* (_request, signal) {
      yield accepted;
      await forever(signal);
    };
    using client = new RawClient(harness.port).write(rawPost(path, ask));
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(1);
    client.socket.end();
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(0);
    expect(await client.all()).toBe("");
  });

  test("is detected when an abort of the openai client closes the connection, and is counted in the metrics", async () => {
    harness.service.script = async function* (_request, signal) {
      yield accepted;
      await forever(signal);
    };
    const leaving = new AbortController();
    const call = harness.openai.chat.completions.create(
      { model: "tiny", messages: [{ role: "user", content: "hi" }] },
      { signal: leaving.signal },
    );
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(1);
    leaving.abort();
    await expect(call).rejects.toThrow("aborted");
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(0);
    await expect
      .poll(() => harness.metrics.metrics(), SHORT_WAIT)
      .toMatch(/requests_total\{method="POST",route="\/v1\/chat\/completions",status="gone"\} 1/);
  });
});

describe("a slow reader", () => {
  test("pauses the production of events, and gets all of them when it continues", async () => {
    const word = "x".repeat(4_000);
    const count = 4_000;
    harness.service.script = async function* () {
      yield accepted;
      for (let at = 0; at < count; at += 1) yield { type: "text", choice: 0, text: word };
      yield { type: "end", choice: 0, reason: "stop", completionTokens: count };
    };
    using client = new RawClient(harness.port);
    client.socket.pause();
    client.write(rawPost(path, askStream, { connection: "close" }));
    let before = -1;
    await expect
      .poll(
        () => {
          const isStill = harness.service.pulled > 0 && harness.service.pulled === before;
          before = harness.service.pulled;
          return isStill;
        },
        { ...SHORT_WAIT, interval: 200 },
      )
      .toBe(true);
    expect(harness.service.pulled).toBeLessThan(count);
    // The slow reader does not affect other clients.
    expect((await fetch(`${harness.url}/health`)).status).toBe(200);
    client.socket.resume();
    const all = readDataLines((await client.all(60_000)).replaceAll(/\r\n[0-9a-f]+\r\n/g, ""));
    expect(all.at(-1)).toBe("[DONE]");
    expect(harness.service.pulled).toBe(count + 2);
  });

  test("that never continues is disconnected", async () => {
    await using strict = await startInferenceHttp({ limits: { stalledMs: 50 } });
    const count = 5_000;
    strict.service.script = async function* () {
      yield accepted;
      for (let at = 0; at < count; at += 1) {
        yield { type: "text", choice: 0, text: "x".repeat(10_000) };
      }
    };
    using client = new RawClient(strict.port);
    client.socket.pause();
    client.write(rawPost(path, askStream));
    await expect.poll(() => strict.service.aborted, SHORT_WAIT).toBe(1);
    await expect.poll(() => strict.service.running, SHORT_WAIT).toBe(0);
    expect(strict.service.pulled).toBeLessThan(count);
  });
});

describe("an HTTP connection", () => {
  test("can be used again after a stream", async () => {
    using client = new RawClient(harness.port).write(rawPost(path, askStream));
    await client.until((text) => text.endsWith("0\r\n\r\n"));
    client.write(rawPost(path, ask));
    await client.until((text) => text.includes('"chat.completion"'));
    client.write(get);
    const all = await client.until((text) => text.includes('"ledger":"ok"}'));
    expect(all.split("HTTP/1.1 200 OK")).toHaveLength(4);
  });

  test("can be used again after a stream that ended with an error", async () => {
    harness.service.script = function* () {
      yield accepted;
      yield { type: "text", choice: 0, text: "a" };
      throw new Error("broken");
    };
    using client = new RawClient(harness.port).write(rawPost(path, askStream));
    await client.until((text) => text.endsWith("0\r\n\r\n"));
    client.write(get);
    const all = await client.until((text) => text.includes('"ledger":"ok"}'));
    expect(all.split("HTTP/1.1 200 OK")).toHaveLength(3);
  });

  test("answers pipelined requests in order, even if a later one is finished first", async () => {
    const gate = new Gate();
    harness.service.script = async function* (request) {
      yield accepted;
      if (request.isStreamed) await gate.opened;
      yield* [...says(request, [request.isStreamed ? "first" : "second"])].slice(1);
    };
    using client = new RawClient(harness.port);
    client.write(Buffer.concat([rawPost(path, askStream), rawPost(path, ask), Buffer.from(get)]));
    await expect.poll(() => harness.service.requests.length, SHORT_WAIT).toBe(2);
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(1);
    gate.open();
    const text = await client.until((all) => all.includes('"engine"'));
    const places = ['"first"', "[DONE]", '"second"', '"engine"'].map((part) => text.indexOf(part));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places[0]).toBeGreaterThan(0);
  });

  test("whose client disconnects ends all its pipelined requests", async () => {
    harness.service.script = async function* (_request, signal) {
      yield accepted;
      await forever(signal);
    };
    const client = new RawClient(harness.port);
    for (let count = 0; count < 20; count += 1) client.write(rawPost(path, askStream));
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(20);
    client.socket.destroy();
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(0);
  });

  test("accepts a body in chunks, byte by byte", async () => {
    using client = new RawClient(harness.port);
    client.write(
      `POST ${path} HTTP/1.1\r\nhost: [::1]:7777\r\ncontent-type: application/json; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    for (const byte of Buffer.from(ask.replace("hi", "hü"))) {
      client.write(Buffer.concat([Buffer.from("1\r\n"), Buffer.from([byte]), Buffer.from("\r\n")]));
    }
    client.write("0\r\n\r\n");
    await client.until((text) => text.includes('"content":"Hello there"'));
    expect(harness.service.requests[0]?.prompts).toMatchObject([{ messages: [{ content: "hü" }] }]);
  });

  test("answers an announced body with 100 Continue", async () => {
    using client = new RawClient(harness.port);
    const [head = "", body = ""] = rawPost(path, ask, { expect: "100-continue" })
      .toString()
      .split("\r\n\r\n");
    client.write(`${head}\r\n\r\n`);
    await client.until((text) => text.startsWith("HTTP/1.1 100"));
    client.write(body);
    expect(await client.until((text) => text.endsWith("}"))).toContain('"content":"Hello there"');
  });

  test("with invalid HTTP gets an error in the usual format", async () => {
    using client = new RawClient(harness.port).write("EHLO mail\r\n\r\n");
    const text = await client.all();
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(JSON.parse(text.split("\r\n\r\n")[1] ?? "")).toMatchObject({
      error: { type: "invalid_request_error", code: "invalid_request" },
    });
  });

  test("that sends its headers or body too slowly is closed", async () => {
    await using strict = await startInferenceHttp({ limits: { headersMs: 200, requestMs: 200 } });
    using headers = new RawClient(strict.port).write("POST /v1/completions HTTP/1.1\r\nhost: loc");
    using body = new RawClient(strict.port).write(rawPost(path, ask).subarray(0, -5));
    for (const client of [headers, body]) expect(await client.all()).toMatch(/^HTTP\/1\.1 408 /);
    expect(strict.service.requests).toEqual([]);
  });
});

describe("the limit for the bodies of all requests together", () => {
  const [part, whole] = [40_000, 50_000];
  // One program may have a quarter of all bytes if no other program sends anything.
  const bounds = { bodyBytesMax: 60_000 } as const;
  const unfinished = rawPost(path, "x".repeat(whole)).subarray(0, part - whole);
  const large = JSON.stringify({ messages: [{ role: "user", content: "x".repeat(part) }] });

  test("refuses a request that exceeds it with 429, and accepts the request after another one has ended", async () => {
    await using strict = await startInferenceHttp({
      limits: { ...bounds, allBodiesBytesMax: 400_000 },
    });
    const clients = [1, 2].map(() => new RawClient(strict.port).write(unfinished));
    // The server may receive these two bodies only after the next request, so the test repeats that request until it is
    // refused.
    await expect.poll(async () => (await strict.post(path, large)).status, SHORT_WAIT).toBe(429);
    const refused = await strict.post(path, large);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(await refused.json()).toMatchObject({
      error: { type: "rate_limit_error", code: "queue_full" },
    });
    expect((await strict.post(path, ask)).status).toBe(200);
    clients[0]?.socket.destroy();
    await expect.poll(async () => (await strict.post(path, large)).status, SHORT_WAIT).toBe(200);
    clients[1]?.socket.destroy();
  });

  test("counts a body until its request is answered, and a refused request leaves its connection open", async () => {
    await using strict = await startInferenceHttp({
      limits: { ...bounds, allBodiesBytesMax: 240_000 },
    });
    const gate = new Gate();
    strict.service.script = async function* (request) {
      await gate.opened;
      yield* says(request, ["done"]);
    };
    using first = new RawClient(strict.port).write(rawPost(path, large));
    await expect.poll(() => strict.service.running, SHORT_WAIT).toBe(1);
    using second = new RawClient(strict.port).write(rawPost(path, large));
    await second.until((text) => text.startsWith("HTTP/1.1 429") && text.endsWith("}}"));
    gate.open();
    await first.until((text) => text.includes('"done"'));
    second.write(rawPost(path, large));
    await second.until((text) => text.includes('"done"'));
  });

  test("does not count bodies that clients announce but never send", async () => {
    await using strict = await startInferenceHttp({
      limits: { ...bounds, allBodiesBytesMax: 240_000 },
    });
    const idle = Array.from({ length: 20 }, () =>
      new RawClient(strict.port).write(unfinished.subarray(0, 200)),
    );
    expect((await strict.post(path, large)).status).toBe(200);
    for (const client of idle) client.socket.destroy();
  });
});

test("a request whose body makes no progress ends with 408, before the time limit of the whole request", async () => {
  await using strict = await startInferenceHttp({
    limits: { bodyRate: { windowMs: 200, bytesMin: 1_000 } },
  });
  using body = new RawClient(strict.port).write(rawPost(path, ask).subarray(0, -5));
  expect(await body.all()).toMatch(/^HTTP\/1\.1 408 /);
  expect(strict.service.requests).toEqual([]);
});
