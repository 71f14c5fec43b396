import { EventEmitter, once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openTestApi, type TestApi } from "../../support/api-harness.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

/** The documented limits of a request's body: docs/api.md. */
const WINDOW_MS = 30_000;
const WINDOW_BYTES = 120 * 1024;

let api: TestApi;
let port = 0;
/** The server's side of each connection, in order. */
let connections: Socket[];
beforeEach(async () => {
  api = await openTestApi();
  connections = [];
  api.server.server.on("connection", (socket: Socket) => connections.push(socket));
  port = Number(new URL(await api.listen()).port);
});
afterEach(() => api[Symbol.asyncDispose]());

async function waitUntil(isDone: () => boolean, problem: string): Promise<void> {
  await vi.waitFor(() => {
    if (!isDone()) throw new Error(problem);
  }, WAIT_OPTIONS);
}

/** A client that writes the bytes of a request itself. */
class RawClient {
  readonly #socket: Socket;
  readonly #closed: Promise<void>;
  #sent = 0;
  text = "";

  constructor() {
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.on("data", (chunk: Buffer) => {
      this.text += chunk.toString();
    });
    this.#socket.on("error", () => {});
    this.#closed = new Promise((resolve) => this.#socket.once("close", () => resolve()));
  }

  /** Sends the head of a request whose body follows. */
  async start(line: string, headers: Readonly<Record<string, string | number>>): Promise<void> {
    const fields = { Host: "berth", Authorization: `Bearer ${api.token("admin")}`, ...headers };
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
    await this.send(`${line} HTTP/1.1\r\n${lines.join("")}\r\n`);
  }

  /** Sends bytes, and waits until the server has read them. */
  async send(bytes: string): Promise<void> {
    this.write(bytes);
    await waitUntil(() => connections.at(-1)?.bytesRead === this.#sent, "not all bytes were read");
  }

  write(bytes: string): void {
    this.#sent += Buffer.byteLength(bytes);
    this.#socket.write(bytes);
  }

  async waitForText(text: string): Promise<void> {
    await waitUntil(() => this.text.includes(text), `no ${text} in the response`);
  }

  /** Ends the connection, and waits until the server has closed it, too. */
  async close(): Promise<void> {
    this.#socket.end();
    await this.#closed;
  }
}

describe("a request whose body makes no progress", () => {
  it.each([
    ["with a password", "POST /api/auth/login", "application/json", '{"password":"'],
    ["with JSON", "POST /api/apps", "application/json", '{"name":"'],
    ["with an archive", "PUT /api/archives", "application/octet-stream", "\u001f"],
    [
      "with a form",
      "POST /api/deploy",
      "multipart/form-data; boundary=b",
      '--b\r\nContent-Disposition: form-data; name="source"; filename="s"\r\n\r\n',
    ],
  ])(
    "ends with 408 although single bytes keep arriving (a request %s)",
    async (_, line, type, head) => {
      const client = new RawClient();
      await client.start(line, { "Content-Type": type, "Content-Length": 1000 });
      await client.send(head);
      let bytes = 0;
      for (; connections.at(-1)?.writableEnded === false && bytes < 20; bytes += 1) {
        // oxlint-disable-next-line no-await-in-loop -- one byte after the other
        await client.send("x");
        // oxlint-disable-next-line no-await-in-loop -- one byte after the other
        await api.clock.advance(WINDOW_MS / 4);
      }
      await client.waitForText("\r\n\r\n");
      expect(client.text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
      expect(client.text).toMatch(/^X-Error-Code: request_timeout\r$/m);
      expect(client.text).toMatch(/^Connection: close\r$/m);
      await client.waitForText('{"error":"the body of the request arrived too slowly"}');
      expect(bytes).toBeLessThan(10);
      await client.close();
      expect(api.entries.filter(({ level }) => level === "error")).toEqual([]);
    },
  );

  it("ends with 408 if the body is chunked, and if nothing of it arrives", async () => {
    const client = new RawClient();
    await client.start("PUT /api/archives", { "Transfer-Encoding": "chunked" });
    await api.clock.advance(WINDOW_MS);
    await client.waitForText("\r\n\r\n");
    expect(client.text).toMatch(/^HTTP\/1\.1 408 /);
    await client.close();
  });
});

describe("a large upload over a slow line", () => {
  it("has as much time as it needs while it makes progress", async () => {
    const client = new RawClient();
    const windows = 40;
    const bytes = windows * WINDOW_BYTES;
    await client.start("PUT /api/archives", { "Content-Length": bytes });
    for (let window = 0; window < windows; window += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one window after the other
      await client.send("x".repeat(WINDOW_BYTES));
      // oxlint-disable-next-line no-await-in-loop -- one window after the other
      if (window < windows - 1) await api.clock.advance(WINDOW_MS);
    }
    await client.waitForText("HTTP/1.1 200");
    await client.waitForText(`"bytes":${bytes}`);
    await client.close();
    // The time limit of Node applies to the time of the machine, which a test cannot advance.
    expect(api.server.server).toMatchObject({ requestTimeout: 0, headersTimeout: 30_000 });
  });

  it("does not end because the server reads it slowly", async () => {
    const upload = api.builds.upload.bind(api.builds);
    const gate = new EventEmitter();
    const opened = once(gate, "open");
    api.builds.upload = async (stream, signal) => {
      await opened;
      return upload(stream, signal);
    };
    const bytes = 8 * 2 ** 20;
    const client = new RawClient();
    await client.start("PUT /api/archives", { "Content-Length": bytes });
    client.write("x".repeat(bytes));
    const server = connections.at(-1);
    await waitUntil(() => Number(server?.bytesRead) > 60_000, "too few bytes were read");
    await api.clock.advance(10 * WINDOW_MS);
    expect(server?.bytesRead).toBeLessThan(bytes);
    expect(client.text).toBe("");
    gate.emit("open");
    await client.waitForText(`"bytes":${bytes}`);
    await client.close();
  });
});
