import { request } from "node:http";
import { connect, createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type ContainerListener,
  ContainerListeners,
} from "../../../src/assistant/inference/http/container-listeners.ts";
import { silentLogger } from "../../../src/base/logger.ts";
import { freePorts } from "../../support/free-port.ts";
import {
  type InferenceHttpHarness,
  SHORT_WAIT,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { accepted, forever, type Script } from "../../support/scripted-service.ts";

/**
 * Addresses of 127.0.0.0/8, all of which belong to this machine. Here they represent a bridge, containers and other
 * machines.
 */
const BRIDGE = "127.0.0.2";
const CONTAINER = "127.0.1.17";
const STRANGER = "127.0.2.17";
const NAME = "models.berth.internal";

const neverEnding: Script = async function* (_, signal) {
  yield accepted;
  await forever(signal);
};

let harness: InferenceHttpHarness;
let listeners: ContainerListeners;
let port: number;
let listener: ContainerListener;
beforeEach(async () => {
  listeners = new ContainerListeners({ logger: silentLogger });
  harness = await startInferenceHttp({ listeners });
  [port = 0] = await freePorts(1);
  listener = { address: BRIDGE, port, host: NAME, subnets: ["127.0.1.0/24"] };
});
afterEach(async () => {
  await listeners[Symbol.asyncDispose]();
  await harness[Symbol.asyncDispose]();
});

interface Call {
  readonly from?: string;
  readonly to?: string;
  readonly port?: number;
  /** The header lines are written by hand, so that a request can have two Host headers. */
  readonly headers?: readonly string[];
  readonly path?: string;
  readonly body?: unknown;
}

/** Resolves to the status and the body; rejects if the connection ends without an answer. */
function call(options: Call = {}): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const { body } = options;
    const asked = request(
      {
        host: options.to ?? BRIDGE,
        port: options.port ?? port,
        localAddress: options.from ?? CONTAINER,
        path: options.path ?? "/health",
        method: body === undefined ? "GET" : "POST",
        headers: [
          ...(options.headers ?? ["host", `${NAME}:${port}`]),
          ...(body === undefined ? [] : ["content-type", "application/json"]),
        ],
        setHost: false,
        agent: false,
      },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        answer.once("end", () => resolve({ status: answer.statusCode, text }));
        answer.once("error", reject);
      },
    );
    asked.once("error", reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

describe("access to a container listener", () => {
  test("is granted to clients in its networks", async () => {
    await listeners.replace([listener]);
    expect(await call()).toMatchObject({ status: 200 });
    const body = { messages: [{ role: "user", content: "hi" }] };
    const answer = await call({ path: "/v1/chat/completions", body });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toMatchObject({ object: "chat.completion" });
  });

  test.each([STRANGER, "127.0.0.1", BRIDGE])(
    "is denied for %s, whose connection is closed before its request is read",
    async (from) => {
      await listeners.replace([listener]);
      await expect(call({ from })).rejects.toMatchObject({ code: "ECONNRESET" });
      expect(harness.service.requests).toEqual([]);
    },
  );

  test("is not possible before the listener is opened, or after it is closed", async () => {
    await expect(call()).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await listeners.replace([listener]);
    await listeners.replace([]);
    await expect(call()).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });

  test("is possible only at the listener's own address", async () => {
    await listeners.replace([listener]);
    for (const to of ["127.0.0.1", "127.0.0.3", CONTAINER])
      await expect(call({ to })).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });
});

describe("the Host header of a client", () => {
  test.each([[NAME], [`${NAME}:7777`], ["Models.Berth.Internal"]])(
    "may be the name of the container listener: %s is accepted",
    async (host) => {
      await listeners.replace([listener]);
      expect((await call({ headers: ["host", host] })).status).toBe(200);
    },
  );

  test.each([
    ["localhost", ["host", "localhost"]],
    ["the listener's address", ["host", BRIDGE]],
    ["another host name", ["host", `evil.${NAME}`]],
    ["a host name with the same prefix", ["host", `${NAME}.example.org`]],
    ["two", ["host", NAME, "host", NAME]],
    ["a page's origin", ["host", NAME, "origin", `http://${NAME}`]],
    ["a stranger's origin", ["host", NAME, "origin", "https://example.org"]],
  ])("must be the name of the container listener: %s is refused", async (_, headers) => {
    await listeners.replace([listener]);
    const { status, text } = await call({ headers });
    // Node's HTTP parser itself refuses a request with two Host headers.
    expect([400, 403]).toContain(status);
    expect(text).not.toContain('"status":"ok"');
  });

  test("causes a refusal that names the required host if it is wrong", async () => {
    await listeners.replace([listener]);
    const { text } = await call({ headers: ["host", "localhost"] });
    expect(JSON.parse(text)).toMatchObject({
      error: {
        code: "forbidden",
        message: expect.stringContaining(`${NAME}: use OPENAI_BASE_URL`),
      },
    });
  });

  test("must not be a container listener's name on a connection to the endpoint's own address", async () => {
    await listeners.replace([listener]);
    expect((await call(own())).status).toBe(403);
    expect((await call({ ...own(), headers: ["host", "localhost"] })).status).toBe(200);
  });
});

const own = () => ({ to: "127.0.0.1", port: harness.port, from: "127.0.0.1" });
const ownListener = (): ContainerListener => ({
  address: "127.0.0.1",
  port: harness.port,
  host: NAME,
  subnets: ["127.0.0.0/24"],
});

describe("a container listener on the endpoint's own address", () => {
  test("accepts its host name in the Host header until it is closed", async () => {
    await listeners.replace([ownListener()]);
    expect((await call(own())).status).toBe(200);
    expect((await call({ ...own(), headers: ["host", "127.0.0.1"] })).status).toBe(200);
    expect((await call({ ...own(), headers: ["host", "example.org"] })).status).toBe(403);
    const page = ["host", NAME, "origin", `http://${NAME}:${harness.port}`];
    expect((await call({ ...own(), headers: page })).status).toBe(403);
    await listeners.replace([]);
    expect((await call(own())).status).toBe(403);
  });

  test("is open to the clients of its networks only", async () => {
    await listeners.replace([ownListener()]);
    expect((await call({ ...own(), from: CONTAINER })).status).toBe(403);
  });
});

describe("replacing the listeners", () => {
  test("keeps connections of clients that are still allowed, and closes the others", async () => {
    harness.service.script = neverEnding;
    const body = { messages: [{ role: "user", content: "hi" }], stream: true };
    const ended: string[] = [];
    const follow = (from: string) =>
      void call({ from, path: "/v1/chat/completions", body })
        .catch(() => {})
        .finally(() => ended.push(from));
    await listeners.replace([{ ...listener, subnets: ["127.0.1.0/24", "127.0.3.0/24"] }]);
    follow(CONTAINER);
    follow("127.0.3.1");
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(2);
    await listeners.replace([listener]);
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(1);
    await expect.poll(() => ended, SHORT_WAIT).toEqual(["127.0.3.1"]);
    await listeners.replace([]);
    await expect.poll(() => ended, SHORT_WAIT).toEqual(["127.0.3.1", CONTAINER]);
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(0);
  });

  test("changes nothing if an address is refused", async () => {
    await listeners.replace([listener]);
    const wrong = { ...listener, address: "0.0.0.0" };
    await expect(listeners.replace([wrong])).rejects.toMatchObject({ code: "invalid_request" });
    await expect(
      listeners.replace([{ ...listener, subnets: ["0.0.0.0/0"] }]),
    ).rejects.toMatchObject({
      code: "invalid_request",
    });
    expect((await call()).status).toBe(200);
    expect((await call({ from: STRANGER }).catch(() => undefined))?.status).toBeUndefined();
  });

  test("reports a port in use, and opens the other listeners", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen({ host: "127.0.0.4", port }, resolve));
    try {
      const taken = { ...listener, address: "127.0.0.4" };
      await expect(listeners.replace([taken, listener])).rejects.toMatchObject({
        message: expect.stringContaining(`port ${port} of 127.0.0.4 is taken`),
      });
      expect((await call()).status).toBe(200);
    } finally {
      other.close();
    }
    await listeners.replace([{ ...listener, address: "127.0.0.4" }]);
    expect((await call({ to: "127.0.0.4" })).status).toBe(200);
  });

  test("runs one replacement after the other", async () => {
    await Promise.all([
      listeners.replace([listener]),
      listeners.replace([]),
      listeners.replace([listener]),
    ]);
    expect((await call()).status).toBe(200);
  });
});

describe("a disconnecting client in a container", () => {
  test.each([false, true])("causes its request to end (streamed: %s)", async (stream) => {
    harness.service.script = neverEnding;
    await listeners.replace([listener]);
    const socket = connect({ host: BRIDGE, port, localAddress: CONTAINER, allowHalfOpen: true });
    const body = JSON.stringify({ messages: [{ role: "user", content: "hi" }], stream });
    socket.on("error", () => {}).resume();
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: ${NAME}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(1);
    // To the endpoint, a half-closed connection looks like the death of the client's process, which is in another
    // network namespace.
    socket.end();
    await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(0);
    socket.destroy();
  });
});

test("closing the endpoint also ends requests that came through container listeners", async () => {
  harness.service.script = neverEnding;
  await listeners.replace([listener]);
  const body = { messages: [{ role: "user", content: "hi" }] };
  const answer = call({ path: "/v1/chat/completions", body });
  await expect.poll(() => harness.service.running, SHORT_WAIT).toBe(1);
  await listeners[Symbol.asyncDispose]();
  await expect(call()).rejects.toMatchObject({ code: "ECONNREFUSED" });
  await harness.server.close();
  expect(JSON.parse((await answer).text)).toMatchObject({ error: { code: "shutting_down" } });
});
