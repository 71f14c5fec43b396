import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AnswerEvent } from "../../../../../src/assistant/inference/service-port.ts";
import { parseUpstreamAddress } from "../../../../../src/assistant/inference/upstream/upstream-address.ts";
import {
  UpstreamInference,
  type UpstreamOptions,
} from "../../../../../src/assistant/inference/upstream/upstream-inference.ts";
import { systemClock } from "../../../../../src/base/clock.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { FakeLedger } from "../../../../support/fake-ledger.ts";
import { freePorts } from "../../../../support/free-port.ts";
import { SHORT_WAIT } from "../../../../support/inference-http-harness.ts";
import { collect, plainRequest } from "../../../../support/service-harness.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

let server: Server;
let answer: Answer;
/** The number of requests whose headers have arrived at the server. */
let requests: number;
const open = new Set<AsyncDisposable>();
const signal = new AbortController().signal;

beforeEach(async () => {
  requests = 0;
  server = createServer((request, response) => {
    requests += 1;
    answer(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});

afterEach(async () => {
  for (const one of open) await one[Symbol.asyncDispose]();
  open.clear();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function portOf(): number {
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("it listens on no port");
  return address.port;
}

function upstreamAt(url: string, options: Partial<UpstreamOptions> = {}): UpstreamInference {
  const upstream = new UpstreamInference({
    url,
    ledger: new FakeLedger(),
    clock: systemClock,
    logger: silentLogger,
    ...options,
  });
  open.add(upstream);
  return upstream;
}

const here = (options?: Partial<UpstreamOptions>) =>
  upstreamAt(`http://127.0.0.1:${portOf()}`, options);

function streamed(response: ServerResponse, ...events: readonly unknown[]): void {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  for (const event of events)
    response.write(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
}

const chunk = (choice: Record<string, unknown>, more: Record<string, unknown> = {}) => ({
  model: "m",
  choices: [{ index: 0, finish_reason: null, ...choice }],
  ...more,
});
const word = chunk({ text: "word" });
const end = chunk({ text: "", finish_reason: "stop" });

const vector = (embedding: unknown) => ({ object: "embedding", embedding });

/** Returns the events that came before a failure, and the error of the failure. */
async function failure(
  upstream: UpstreamInference,
  leaving: AbortSignal = signal,
): Promise<{ events: AnswerEvent["type"][]; error: unknown }> {
  const events: AnswerEvent["type"][] = [];
  try {
    for await (const event of upstream.generate(plainRequest, leaving)) events.push(event.type);
  } catch (error) {
    return { events, error };
  }
  throw new Error("it did not fail");
}

describe("a request to an address where no system instance of the assistant runs", () => {
  test("fails with no_model if the connection is refused; the message has the command that starts the system instance", async () => {
    const [port] = await freePorts(1);
    const upstream = upstreamAt(`http://127.0.0.1:${port}`);
    const { events, error } = await failure(upstream);
    expect(events).toEqual([]);
    expect(error).toMatchObject({
      code: "no_model",
      message: expect.stringContaining("berth assistant --system"),
    });
    await expect(upstream.models()).rejects.toMatchObject({ code: "no_model" });
    await expect(upstream.embed({ ...plainRequest, texts: ["a"] }, signal)).rejects.toMatchObject({
      code: "no_model",
    });
    expect(await upstream.health()).toMatchObject({ engine: "upstream", upstream: "unreachable" });
  });

  const garbage: Readonly<Record<string, Answer>> = {
    "a page of another program": (_, response) => response.end("<html>hello</html>"),
    "an answer that is not HTTP": ({ socket }) => socket.end("SSH-2.0-OpenSSH\r\n"),
    "an error without an envelope": (_, response) => response.writeHead(404).end("not here"),
    "an event that is not JSON": (_, response) => streamed(response, "{"),
    "an event that is a number": (_, response) => streamed(response, "1"),
    "a choice that was not requested": (_, response) =>
      streamed(response, chunk({ index: 1, text: "a" })),
    "an end without all choices": (_, response) => streamed(response, word, "[DONE]"),
    "an unknown finish reason": (_, response) =>
      streamed(response, chunk({ finish_reason: "boredom" })),
    "an event without an end": (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: ");
      for (let count = 0; count < 20; count++) response.write("x".repeat(2 ** 20));
    },
  };

  test.each(Object.entries(garbage))(
    "fails with engine_failed if another program sends %s",
    async (_, given) => {
      answer = given;
      const { error } = await failure(here());
      expect(error).toMatchObject({
        code: "engine_failed",
        message: expect.stringContaining("cannot be read"),
      });
    },
  );

  test("fails if the answer is an invalid list of models or has invalid embeddings", async () => {
    const notUnderstood = { message: expect.stringContaining("cannot be read") };
    const request = { ...plainRequest, texts: ["a", "b"] };
    for (const body of [
      "",
      "{}",
      '{"data":[{"id":1}]}',
      JSON.stringify({ model: "m", data: [vector([1])] }),
      JSON.stringify({ model: "m", data: [vector([1]), vector([1, 0])] }),
      JSON.stringify({ model: "m", data: [vector("AAA"), vector("AAA")] }),
      JSON.stringify({ data: [vector([1]), vector([1])] }),
    ]) {
      answer = (_, response) => response.end(body);
      await expect(here().models()).rejects.toMatchObject(notUnderstood);
      await expect(here().embed(request, signal)).rejects.toMatchObject(notUnderstood);
    }
  });
});

describe("failures during a request to the assistant's system instance", () => {
  test("a connection that is cut before the answer is not retried", async () => {
    answer = ({ socket }) => socket.destroy();
    expect((await failure(here())).error).toMatchObject({ code: "engine_failed" });
    expect(requests).toBe(1);
  });

  test("a stream that is cut midway fails after the events that have arrived", async () => {
    answer = (_, response) => {
      streamed(response, word, word);
      setImmediate(() => response.destroy());
    };
    const { events, error } = await failure(here());
    expect(events).toEqual(["accepted", "text", "text"]);
    expect(error).toMatchObject({
      code: "engine_failed",
      message: expect.stringContaining("exited during the answer"),
    });
    expect(requests).toBe(1);
  });

  test("an end without [DONE] counts as cut off", async () => {
    answer = (_, response) => {
      streamed(response, word, end);
      response.end();
    };
    expect((await failure(here())).error).toMatchObject({ code: "engine_failed" });
  });

  test("an unknown error code is mapped by its HTTP status", async () => {
    const body = JSON.stringify({ error: { message: "new\nwords", code: "from_the_future" } });
    answer = (_, response) => response.writeHead(422).end(body);
    expect((await failure(here())).error).toMatchObject({
      code: "invalid_request",
      message: "new words",
    });
    answer = (_, response) => response.writeHead(502).end(body);
    expect((await failure(here())).error).toMatchObject({ code: "engine_failed" });
  });

  test("a reused connection that the server has closed is replaced without an error", async () => {
    const sockets = new Set<Socket>();
    answer = (request, response) => {
      // The second request on a connection finds it closed, as if the server had closed it at the same moment.
      if (sockets.has(request.socket)) return request.socket.resetAndDestroy();
      sockets.add(request.socket);
      streamed(response, word, end, "[DONE]");
      return response.end();
    };
    const upstream = here();
    for (let round = 0; round < 3; round++)
      expect(await collect(upstream.generate(plainRequest, signal))).toHaveLength(3);
    expect(sockets.size).toBe(3);
  });

  test("a request fails if the server sends nothing for a minute while the caller waits for an event", async () => {
    const clock = new VirtualClock();
    let gone = false;
    answer = (_, response) => {
      response.on("close", () => (gone = true));
      streamed(response, word);
    };
    const events = here({ clock }).generate(plainRequest, signal);
    await events.next();
    expect((await events.next()).value).toMatchObject({ type: "text" });
    // While the caller requests no event, the server's silence does not count.
    await clock.advance(300_000);
    expect(gone).toBe(false);
    const pending = events.next();
    pending.catch(() => {});
    await clock.advance(61_000);
    await expect(pending).rejects.toMatchObject({ code: "timeout" });
    await expect.poll(() => gone, SHORT_WAIT).toBe(true);
  });

  test("a request fails after a minute if the server never answers", async () => {
    const clock = new VirtualClock();
    answer = () => {};
    const failing = failure(here({ clock }));
    await expect.poll(() => requests, SHORT_WAIT).toBe(1);
    await clock.advance(61_000);
    expect((await failing).error).toMatchObject({ code: "timeout" });
  });

  test("comments in the event stream restart the time limit for a silent server", async () => {
    let timers = 0;
    const clock = new (class extends VirtualClock {
      override setTimer(delayMs: number, callback: () => void): () => void {
        timers += 1;
        return super.setTimer(delayMs, callback);
      }
    })();
    let stream: ServerResponse | undefined;
    answer = (_, response) => {
      streamed(response, word);
      stream = response;
    };
    const events = here({ clock }).generate(plainRequest, signal);
    for (let pulled = 0; pulled < 2; pulled++) await events.next();
    const pending = events.next();
    for (let round = 0; round < 5; round++) {
      await clock.advance(50_000);
      const before = timers;
      stream?.write(": waiting\n\n");
      // The client has read the chunk once it starts its timer again.
      await expect.poll(() => timers, SHORT_WAIT).toBe(before + 1);
    }
    stream?.write(`data: ${JSON.stringify(word)}\n\n`);
    expect((await pending).value).toMatchObject({ type: "text" });
    await events.return();
  });
});

describe("an abort of a request to the system instance", () => {
  test.each(["before it is sent", "before the answer", "within the answer"])(
    "ends the request (the caller aborts %s)",
    async (when) => {
      let closed = 0;
      answer = (_, response) => {
        response.on("close", () => (closed += 1));
        if (when === "within the answer") streamed(response, word);
      };
      const leaving = new AbortController();
      if (when === "before it is sent") leaving.abort(new Error("gone"));
      const failing = failure(here(), leaving.signal);
      if (when !== "before it is sent") {
        await expect.poll(() => requests, SHORT_WAIT).toBe(1);
        leaving.abort(new Error("gone"));
      }
      expect((await failing).error).toMatchObject({ message: "gone" });
      await expect.poll(() => closed, SHORT_WAIT).toBe(requests);
    },
  );

  test("disposing the client ends requests in progress with shutting_down", async () => {
    answer = (_, response) => streamed(response, word);
    const upstream = here();
    const failing = failure(upstream);
    await expect.poll(() => requests, SHORT_WAIT).toBe(1);
    await upstream[Symbol.asyncDispose]();
    expect((await failing).error).toMatchObject({ code: "shutting_down" });
    await expect(upstream.models()).rejects.toMatchObject({ code: "shutting_down" });
  });
});

describe("a server that sends token counts only at the end", () => {
  test("makes the client emit the counts after all text; their sums equal the totals that the server sends", async () => {
    answer = (_, response) => {
      const usage = {
        prompt_tokens: 9,
        completion_tokens: 7,
        prompt_tokens_details: { cached_tokens: 4 },
        completion_tokens_details: { reasoning_tokens: 2 },
      };
      streamed(
        response,
        word,
        chunk({ index: 1, text: "other", finish_reason: "length" }),
        end,
        { model: "m", choices: [], usage },
        "[DONE]",
      );
      response.end();
    };
    const events = await collect(here().generate({ ...plainRequest, n: 2 }, signal));
    expect(events).toEqual([
      { type: "accepted", model: "m", ledgerSeq: 0 },
      { type: "text", choice: 0, text: "word" },
      { type: "text", choice: 1, text: "other" },
      { type: "started", prompt: 0, promptTokens: 9, cachedTokens: 4 },
      { type: "end", choice: 1, reason: "length", completionTokens: 0 },
      { type: "end", choice: 0, reason: "stop", completionTokens: 7, reasoningTokens: 2 },
    ]);
  });

  test("may send only the sum of the tokens of all texts", async () => {
    const body = { model: "m", data: [{ embedding: [1] }, { embedding: [1] }] };
    answer = (_, response) =>
      response.end(JSON.stringify({ ...body, usage: { prompt_tokens: 5 } }));
    const answered = await here().embed({ ...plainRequest, texts: ["a", "b"] }, signal);
    expect(answered).toMatchObject({ tokens: [5, 0] });
  });
});

describe("the address of the system instance", () => {
  test.each([
    ["http://127.0.0.1:7777", "http://127.0.0.1:7777/"],
    ["http://127.9.9.9:1/", "http://127.9.9.9:1/"],
    ["http://localhost:7777/v1", "http://localhost:7777/"],
    ["http://[::1]:80/v1/", "http://[::1]/"],
  ])("may be %s", (given, url) => {
    expect(parseUpstreamAddress(given).href).toBe(url);
  });

  test.each([
    "",
    "127.0.0.1:7777",
    "https://127.0.0.1:7777",
    "http://10.0.0.1:7777",
    "http://127.0.0.1.example.org",
    "http://localhost.example.org",
    "http://0.0.0.0:7777",
    "http://[::]:7777",
    "http://ada:secret@127.0.0.1:7777",
    "http://127.0.0.1:7777/v2",
    "http://127.0.0.1:7777/?a=b",
    "unix:/run/assistant.sock",
  ])("is refused if it is %j", (given) => {
    const refused = () => upstreamAt(given);
    expect(refused).toThrow(expect.objectContaining({ code: "invalid_request" }));
    expect(refused).not.toThrow("secret");
  });
});

test("a request with a chat and also a prompt of another kind is refused before the ledger is written", async () => {
  const ledger = new FakeLedger();
  const chat = { kind: "chat", messages: [], tools: [], variables: {} } as const;
  for (const prompts of [
    [chat, chat],
    [{ kind: "text", text: "a" } as const, chat],
  ]) {
    const events = here({ ledger }).generate({ ...plainRequest, prompts }, signal);
    await expect(collect(events)).rejects.toMatchObject({ code: "invalid_request" });
  }
  expect(ledger.entries).toEqual([]);
});
