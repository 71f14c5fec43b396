import type { Socket } from "node:net";
import {
  type JSONRPCMessage,
  parseJSONRPCMessage,
  type RequestId,
  SdkError,
  SdkErrorCode,
  serializeMessage,
  type Transport,
} from "@modelcontextprotocol/client";
import type { Clock } from "../../../base/clock.ts";
import { TokenBucket } from "../../../base/token-bucket.ts";
import { ToolAppError } from "../tool-apps.ts";
import { FrameSplitter, FrameTooLargeError } from "./frame-splitter.ts";
import type { McpLimits } from "./mcp-limits.ts";
import { checkBounds, checkNesting, MessageBoundsError } from "./message-bounds.ts";

interface SocketTransportOptions {
  readonly appId: string;
  readonly socket: Socket;
  readonly clock: Clock;
  readonly limits: McpLimits;
  /** Called once when the connection has ended, whichever side closed it. */
  readonly onEnded: () => void;
}

/**
 * MCP over one connection: JSON-RPC with one message per line. An invalid or too large message closes the connection,
 * because the rest of the stream cannot be trusted; `closeReason` then returns the reason.
 */
export class SocketTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  readonly #options: SocketTransportOptions;
  readonly #splitter: FrameSplitter;
  /** Limits messages that are not answers to pending requests. */
  readonly #unsolicited: TokenBucket;
  /** Ids of requests that were sent and neither answered nor cancelled. */
  readonly #pendingRequests = new Set<RequestId>();
  #isClosed = false;
  #closeReason: ToolAppError | undefined;

  /** Takes ownership of a connected socket that has not been read from yet. */
  constructor(options: SocketTransportOptions) {
    this.#options = options;
    this.#splitter = new FrameSplitter(options.limits.frameBytesMax);
    const { unsolicitedPerSecond: perSecond, unsolicitedBurst: burst } = options.limits;
    this.#unsolicited = new TokenBucket({ perSecond, burst }, options.clock);
    // The event "close" follows and is handled. An "error" event without a listener would end the process.
    this.#options.socket.on("error", () => {});
    this.#options.socket.once("close", () => this.#finishClose());
  }

  /**
   * The reason why this side closed the connection; undefined while the connection is open, or if the app or a call
   * of `close` closed it.
   */
  get closeReason(): ToolAppError | undefined {
    return this.#closeReason;
  }

  get isClosed(): boolean {
    return this.#isClosed || this.#options.socket.destroyed;
  }

  async start(): Promise<void> {
    if (this.isClosed)
      throw new SdkError(SdkErrorCode.NotConnected, "the app has closed the connection");
    this.#options.socket.on("data", (chunk: Buffer) => this.#read(chunk));
  }

  /** Resolves when the message was written, or was added to a bounded queue. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.isClosed)
      throw new SdkError(SdkErrorCode.NotConnected, "the app has closed the connection");
    this.#trackRequest(message);
    this.#options.socket.write(serializeMessage(message));
    if (this.#options.socket.writableLength > this.#options.limits.outgoingBytesMax) {
      this.#fail("transport_closed", "does not read its messages");
      throw new SdkError(SdkErrorCode.SendFailed, "the app does not read its messages");
    }
  }

  async close(): Promise<void> {
    this.#options.socket.destroy();
    this.#finishClose();
  }

  #read(chunk: Buffer): void {
    try {
      for (const line of this.#splitter.split(chunk)) {
        this.#receive(line);
        if (this.isClosed) return;
      }
    } catch (error) {
      if (error instanceof FrameTooLargeError) {
        const mib = this.#options.limits.frameBytesMax / 1024 / 1024;
        this.#fail("result_too_large", `sent a line of more than ${mib} MiB`);
      } else {
        this.#fail("bad_result", "sent a line that is not UTF-8");
      }
    }
  }

  #receive(line: string): void {
    let message: JSONRPCMessage;
    try {
      checkNesting(line);
      const value: unknown = JSON.parse(line);
      if (Array.isArray(value)) {
        this.#fail("bad_result", "sent a batch, which MCP does not allow");
        return;
      }
      if (typeof value === "object" && value !== null) {
        checkBounds(value, this.#options.limits.blocksMax);
      }
      message = parseJSONRPCMessage(value);
    } catch (error) {
      const what =
        error instanceof MessageBoundsError
          ? `sent ${error.message}`
          : "sent a line that is not a JSON-RPC message";
      this.#fail("bad_result", what);
      return;
    }
    const isAnswer = !("method" in message);
    const id = "id" in message ? message.id : undefined;
    const isSolicited = isAnswer && id !== undefined && this.#pendingRequests.delete(id);
    if (!isSolicited && !this.#unsolicited.tryConsume()) {
      const { unsolicitedPerSecond } = this.#options.limits;
      this.#fail(
        "transport_closed",
        `sent more than ${unsolicitedPerSecond} unsolicited messages in a second`,
      );
      return;
    }
    // Ignores late answers and answers with unknown ids.
    if (isAnswer && !isSolicited) return;
    try {
      this.onmessage?.(message);
    } catch {
      this.#fail("bad_result", "sent a message that is not part of MCP");
    }
  }

  #trackRequest(message: JSONRPCMessage): void {
    if (!("method" in message)) return;
    if ("id" in message) {
      this.#pendingRequests.add(message.id);
      return;
    }
    const cancelled =
      message.method === "notifications/cancelled" ? message.params?.["requestId"] : undefined;
    if (typeof cancelled === "string" || typeof cancelled === "number") {
      this.#pendingRequests.delete(cancelled);
    }
  }

  #fail(code: ToolAppError["code"], what: string): void {
    this.#closeReason ??= new ToolAppError(
      code,
      `${this.#options.appId} ${what}: the connection was closed`,
    );
    this.#options.socket.destroy();
    this.#finishClose();
  }

  #finishClose(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#splitter.clear();
    this.#pendingRequests.clear();
    this.onclose?.();
    this.#options.onEnded();
  }
}
