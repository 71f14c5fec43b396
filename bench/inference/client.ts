import { Agent, request } from "node:http";

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

export interface Streamed {
  /** The time from the call to the first piece of text of the answer, in milliseconds. */
  readonly firstTokenMs: number;
  /** The time from the first piece of text to the end of the answer, in milliseconds. */
  readonly restMs: number;
  readonly tokens: number;
}

export interface StreamOptions {
  readonly prompt: string;
  readonly tokens: number;
  readonly body?: Readonly<Record<string, unknown>>;
  readonly signal?: AbortSignal;
  readonly onFirst?: () => void;
  /** Receives the pieces of the answer as they arrive. */
  readonly onText?: (text: string) => void;
}

/** Reads one streamed chat with minimal cost, because the cost of clients is not measured here. */
export function stream(url: string, options: StreamOptions): Promise<Streamed> {
  const body = JSON.stringify({
    messages: [{ role: "user", content: options.prompt }],
    max_tokens: options.tokens,
    temperature: 0.8,
    top_k: 40,
    top_p: 0.95,
    min_p: 0.05,
    seed: 7,
    stream: true,
    ...options.body,
  });
  const begun = performance.now();
  return new Promise((resolve, reject) => {
    let first = 0;
    let tokens = 0;
    const call = request(
      `${url}/v1/chat/completions`,
      {
        method: "POST",
        agent,
        headers: { "content-type": "application/json" },
        ...(options.signal && { signal: options.signal }),
      },
      (response) => {
        if (response.statusCode !== 200) {
          response.setEncoding("utf8").on("data", (text: string) => reject(new Error(text)));
          return;
        }
        response.setEncoding("latin1");
        response.on("data", (text: string) => {
          const pieces = text.split('"content":').length - 1;
          // The first event may have an empty text, which does not count as the first piece of text.
          if (pieces === 0 || (first === 0 && /"content":""/.test(text) && pieces === 1)) return;
          if (first === 0) {
            first = performance.now();
            options.onFirst?.();
          }
          tokens += pieces;
          options.onText?.(text);
        });
        response.once("end", () =>
          resolve({
            firstTokenMs: first - begun,
            restMs: performance.now() - first,
            tokens: options.tokens,
          }),
        );
        response.once("error", reject);
      },
    );
    call.once("error", reject);
    call.end(body);
  });
}

/** Returns the tokens per second of all streams together, counted from the moment at which all streams have begun. */
export async function throughput(
  url: string,
  streams: number,
  options: StreamOptions,
): Promise<number> {
  const begun = await Promise.all(Array.from({ length: streams }, () => stream(url, options)));
  const restMs = Math.max(...begun.map((one) => one.restMs));
  return (streams * (options.tokens - 1) * 1000) / restMs;
}

export async function post(url: string, path: string, body: unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const call = request(
      `${url}${path}`,
      { method: "POST", agent, headers: { "content-type": "application/json" } },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.once("end", () =>
          response.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text)),
        );
      },
    );
    call.once("error", reject);
    call.end(JSON.stringify(body));
  });
}

export function closeClient(): void {
  agent.destroy();
}
