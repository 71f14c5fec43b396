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
  /** Whoever closed it. */
  readonly onEnded: () => void;
}

/**
 * MCP over one connection: JSON-RPC, a message a line. What is no message, or too much of one, ends the
 * connection, since nothing that comes after it can be trusted to be whole; `endedBy` has the reason then.
 */
export class SocketTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  readonly #options: SocketTransportOptions;
  readonly #splitter: FrameSplitter;
  /** What the app may say that nobody asked it for. */
  readonly #unsolicited: TokenBucket;
  /** Requests that were sent and neither answered nor cancelled. */
  readonly #pendingRequests = new Set<RequestId>();
  #isClosed = false;
  #closeReason: ToolAppError | undefined;

  /** Takes the socket over: connected, and not read from yet. */
  constructor(options: SocketTransportOptions) {
    this.#options = options;
    this.#splitter = new FrameSplitter(options.limits.frameBytesMax);
    const { unsolicitedPerSecond: perSecond, unsolicitedBurst: burst } = options.limits;
    this.#unsolicited = new TokenBucket({ perSecond, burst }, options.clock);
    this.#options.socket.on("error", () => {}); // followed by "close", which says it all
    this.#options.socket.once("close", () => this.#finishClose());
  }

  /** Why this side closed; undefined while it is open, and where the app did, or `close`. */
  get closeReason(): ToolAppError | undefined {
    return this.#closeReason;
  }

  get isClosed(): boolean {
    return this.#isClosed || this.#options.socket.destroyed;
  }

  async start(): Promise<void> {
    if (this.isClosed) throw new SdkError(SdkErrorCode.NotConnected, "the app has closed");
    this.#options.socket.on("data", (chunk: Buffer) => this.#read(chunk));
  }

  /** Resolves when it was handed to the system, or waits in a bounded queue. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.isClosed) throw new SdkError(SdkErrorCode.NotConnected, "the app has closed");
    this.#trackRequest(message);
    this.#options.socket.write(serializeMessage(message));
    if (this.#options.socket.writableLength > this.#options.limits.outgoingBytesMax) {
      this.#fail("transport_closed", "does not read what is sent to it");
      throw new SdkError(SdkErrorCode.SendFailed, "the app does not read");
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
        this.#fail("bad_result", "sent a batch, which MCP does not have");
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
          : "sent a line that is no message of JSON-RPC";
      this.#fail("bad_result", what);
      return;
    }
    const isAnswer = !("method" in message);
    const id = "id" in message ? message.id : undefined;
    const isSolicited = isAnswer && id !== undefined && this.#pendingRequests.delete(id);
    if (!isSolicited && !this.#unsolicited.tryConsume()) {
      const { unsolicitedPerSecond: unaskedPerSecond } = this.#options.limits;
      this.#fail(
        "transport_closed",
        `sent more than ${unaskedPerSecond} messages in a second that nobody asked for`,
      );
      return;
    }
    // Late answers, and those with an id that was never sent.
    if (isAnswer && !isSolicited) return;
    try {
      this.onmessage?.(message);
    } catch {
      this.#fail("bad_result", "sent a message that MCP does not have");
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
