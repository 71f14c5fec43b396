import { connect, type Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import OpenAI from "openai";
import { Registry } from "prom-client";
import type { ClientAccess } from "../../src/assistant/inference/http/client-access.ts";
import type { ContainerListeners } from "../../src/assistant/inference/http/container-listeners.ts";
import type { InferenceHttpLimits } from "../../src/assistant/inference/http/http-context.ts";
import { buildInferenceServer } from "../../src/assistant/inference/http/inference-server.ts";
import { RoutedInference } from "../../src/assistant/inference/routing/routed-inference.ts";
import type { InferenceService } from "../../src/assistant/inference/service-port.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { type Logger, silentLogger } from "../../src/base/logger.ts";
import { ScriptedService } from "./scripted-service.ts";

export interface InferenceHttpHarness extends AsyncDisposable {
  readonly service: ScriptedService;
  readonly server: FastifyInstance;
  readonly metrics: Registry;
  readonly port: number;
  readonly url: string;
  readonly openai: OpenAI;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

/** Starts the real HTTP server on a free port, over a scripted service. */
export async function startInferenceHttp(
  options: {
    readonly clock?: Clock;
    readonly logger?: Logger;
    readonly limits?: Partial<InferenceHttpLimits>;
    readonly listeners?: ContainerListeners;
    readonly access?: ClientAccess;
    /**
     * The service for remote models. If it is given, the server chooses between it and the scripted service by the
     * model's name, as the companion does; otherwise all requests go to the scripted service.
     */
    readonly remote?: InferenceService;
    readonly aliases?: ReadonlyMap<string, readonly string[]>;
  } = {},
): Promise<InferenceHttpHarness> {
  const service = new ScriptedService();
  const metrics = new Registry();
  const { clock = systemClock, logger = silentLogger, remote, aliases = new Map() } = options;
  const routed = remote
    ? new RoutedInference({ local: service, remote, aliases: () => aliases, logger, clock })
    : undefined;
  const server = buildInferenceServer({
    service: routed ?? service,
    metrics,
    clock,
    logger,
    version: "1.2.3",
    ...(routed ? { routes: routed } : {}),
    ...(options.limits ? { limits: options.limits } : {}),
    ...(options.listeners ? { listeners: options.listeners } : {}),
    ...(options.access ? { access: options.access } : {}),
  });
  await server.listen({ host: "127.0.0.1", port: 0 });
  const address = server.server.address();
  if (typeof address !== "object" || address === null) throw new Error("it listens on no port");
  const { port } = address;
  const url = `http://127.0.0.1:${port}`;
  return {
    service,
    server,
    metrics,
    port,
    url,
    openai: new OpenAI({ baseURL: `${url}/v1`, apiKey: "any", maxRetries: 0 }),
    post: (path, body, headers = {}) =>
      fetch(`${url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    async [Symbol.asyncDispose]() {
      await server.close();
    },
  };
}

/** Options of expect.poll for a result that is expected soon. The long timeout allows for a busy machine. */
export const SHORT_WAIT = { timeout: 20_000, interval: 10 } as const;

/** A connection on which a test writes bytes and reads text. */
export class RawClient implements Disposable {
  readonly socket: Socket;
  #text = "";
  #isEnded = false;
  #onChange: (() => void) | undefined;

  constructor(port: number) {
    // The socket is half-open, so that the test decides when its own half is closed.
    this.socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
    this.socket.setEncoding("utf8");
    this.socket.on("data", (chunk) => {
      this.#text += String(chunk);
      this.#onChange?.();
    });
    const ended = () => {
      this.#isEnded = true;
      this.#onChange?.();
    };
    this.socket.on("end", ended).on("close", ended).on("error", ended);
  }

  get text(): string {
    return this.#text;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  write(bytes: string | Buffer): this {
    this.socket.write(bytes);
    return this;
  }

  /** Resolves to all text received so far as soon as `seen` returns true for that text. */
  async until(seen: (text: string) => boolean, limitMs = 10_000): Promise<string> {
    const deadline = setTimeout(() => this.#onChange?.(), limitMs);
    const endsAt = Date.now() + limitMs;
    try {
      while (!seen(this.#text)) {
        if (this.#isEnded)
          throw new Error(`the connection ended after ${JSON.stringify(this.#text)}`);
        if (Date.now() >= endsAt) throw new Error(`only ${JSON.stringify(this.#text)} came`);
        await new Promise<void>((resolve) => {
          this.#onChange = resolve;
        });
      }
      return this.#text;
    } finally {
      clearTimeout(deadline);
      this.#onChange = undefined;
    }
  }

  /** Resolves to all received text when the server has closed the connection. */
  async all(limitMs = 10_000): Promise<string> {
    const endsAt = Date.now() + limitMs;
    while (!this.#isEnded) {
      if (Date.now() >= endsAt)
        throw new Error(`it did not end after ${JSON.stringify(this.#text)}`);
      await new Promise<void>((resolve) => {
        this.#onChange = resolve;
        setTimeout(resolve, Math.min(limitMs, 250));
      });
    }
    return this.#text;
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

/** Returns a POST request as the bytes of an HTTP message. */
export function rawPost(
  path: string,
  body: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
): Buffer {
  const bytes = Buffer.from(body);
  const all = {
    host: "127.0.0.1",
    "content-type": "application/json",
    "content-length": String(bytes.length),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return Buffer.concat([
    Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`),
    bytes,
  ]);
}

/** Returns the contents of the `data:` lines of an event stream. */
export function readDataLines(stream: string): string[] {
  return stream
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => line.slice(6).replace(/\r$/, ""));
}
