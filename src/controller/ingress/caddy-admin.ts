import { request } from "node:http";
import { BerthError } from "../../base/errors.ts";
import type { CaddyConfig } from "./caddy-config.ts";

/**
 * The time limit for loading a configuration, which may initialise many modules. A running Caddy answers other
 * requests immediately.
 */
const LOAD_LIMIT_MS = 20_000;
const READ_CONFIG_LIMIT_MS = 5_000;
const PING_LIMIT_MS = 2_000;
/**
 * The maximum size of a response, in bytes. The configuration of hundreds of Apps with ingress options is far smaller.
 */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;

/** A client of Caddy's admin API on a Unix socket: https://caddyserver.com/docs/api. */
export class CaddyAdmin {
  readonly #socket: string;

  constructor(socket: string) {
    this.#socket = socket;
  }

  /** Returns the loaded configuration; undefined if Caddy does not answer. */
  async readConfig(signal: AbortSignal): Promise<unknown> {
    try {
      const { status, text } = await this.#call(
        "GET",
        "/config/",
        undefined,
        READ_CONFIG_LIMIT_MS,
        signal,
      );
      if (status !== 200) return undefined;
      const parsed: unknown = JSON.parse(text);
      return parsed ?? {};
    } catch (error) {
      if (signal.aborted) throw error;
      return undefined;
    }
  }

  async isAnswering(signal: AbortSignal): Promise<boolean> {
    try {
      const path = "/config/admin/listen";
      return (await this.#call("GET", path, undefined, PING_LIMIT_MS, signal)).status === 200;
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    }
  }

  /**
   * Loads a configuration. Returns undefined after success, or Caddy's error message if Caddy refuses the
   * configuration. Throws if Caddy does not answer.
   */
  async load(config: CaddyConfig, signal: AbortSignal): Promise<string | undefined> {
    const body = JSON.stringify(config);
    const { status, text } = await this.#call("POST", "/load", body, LOAD_LIMIT_MS, signal);
    return status === 200 ? undefined : parseError(text);
  }

  /** Asks Caddy to exit. Running requests are completed. */
  async stop(signal: AbortSignal): Promise<void> {
    await this.#call("POST", "/stop", "", PING_LIMIT_MS, signal).catch(() => {});
  }

  #call(
    method: string,
    path: string,
    body: string | undefined,
    limitMs: number,
    signal: AbortSignal,
  ): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const fail = (cause: unknown) =>
        reject(new BerthError("internal", "Caddy does not answer on its admin socket", { cause }));
      const outgoing = request(
        {
          socketPath: this.#socket,
          method,
          path,
          // The Host header is empty, because Caddy's admin API refuses host names: a web page could send such a
          // request.
          setHost: false,
          headers: {
            Host: "",
            ...(body === undefined
              ? {}
              : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) }),
          },
          agent: false,
          signal,
        },
        (response) => {
          const chunks: Buffer[] = [];
          let bytes = 0;
          response.on("data", (chunk: Buffer) => {
            bytes += chunk.length;
            if (bytes > ANSWER_BYTES_MAX) response.destroy(new Error("the response is too large"));
            chunks.push(chunk);
          });
          response.once("error", fail);
          response.once("end", () =>
            resolve({
              status: response.statusCode ?? 0,
              text: Buffer.concat(chunks).toString("utf8"),
            }),
          );
        },
      );
      // A timer is used because of a defect of Node 22.14: it may garbage-collect AbortSignal.timeout behind
      // AbortSignal.any while a request waits for it. The request would then never end.
      const late = setTimeout(() => outgoing.destroy(new Error("no response in time")), limitMs);
      outgoing.once("close", () => clearTimeout(late));
      outgoing.once("error", fail);
      outgoing.end(body);
    });
  }
}

function parseError(text: string): string {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null && "error" in parsed)
      return String(parsed.error);
  } catch {
    // Caddy's error response is not JSON, so its whole text is returned.
  }
  return text.trim() || "no reason given";
}
