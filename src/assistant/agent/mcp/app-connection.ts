import type { Client } from "@modelcontextprotocol/client";
import { isObject } from "../../../base/json.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import type { JsonObject } from "../port.ts";
import { type LiveTool, ToolAppError, type ToolResult } from "../tool-apps.ts";
import { createCallResultSchema } from "./call-result-schema.ts";
import { type HandshakeOptions, performHandshake } from "./handshake.ts";
import { LateAnswers } from "./late-answers.ts";
import { listTools } from "./list-tools.ts";
import { connectionLostError, toRequestFailure } from "./request-failure.ts";
import type { SocketTransport } from "./socket-transport.ts";

interface AppConnectionOptions extends Pick<HandshakeOptions, "appId" | "clock" | "limits"> {
  readonly client: Client;
  readonly transport: SocketTransport;
  readonly changes: ToolChanges;
}

/** One connection to one app, from the handshake to its close. The cached tool list is dropped with the connection. */
export class AppConnection {
  readonly #options: AppConnectionOptions;
  #tools: Promise<ReadonlyMap<string, LiveTool>> | undefined;
  #calls = 0;
  readonly #lateAnswers: LateAnswers;
  readonly #callResultSchema: ReturnType<typeof createCallResultSchema>;
  #stopIdleTimer = () => {};

  /**
   * Opens a connection. Rejects with ToolAppError or the signal's reason. `onClosed` is called once when the
   * connection closes, whatever the cause.
   */
  static async open(
    options: Omit<HandshakeOptions, "onToolsChanged" | "onEnded"> & {
      readonly onClosed: (connection: AppConnection) => void;
    },
  ): Promise<AppConnection> {
    const changes: ToolChanges = { count: 0, isNotified: true };
    let connection: AppConnection | undefined;
    const { client, transport } = await performHandshake({
      ...options,
      onToolsChanged: () => {
        changes.count += 1;
      },
      onEnded: (ended) => {
        if (!connection || connection.#options.transport !== ended) return;
        connection.#stopIdleTimer();
        options.onClosed(connection);
      },
    });
    connection = new AppConnection({ ...options, client, transport, changes });
    return connection;
  }

  private constructor(options: AppConnectionOptions) {
    this.#options = options;
    this.#callResultSchema = createCallResultSchema(options.client.getProtocolEra());
    this.#lateAnswers = new LateAnswers({ ...options, onEnded: () => this.#startIdleTimer() });
    this.#watchSubscription();
    this.#startIdleTimer();
  }

  get isClosed(): boolean {
    return this.#options.transport.isClosed;
  }

  /** Returns the app's current tools. Rejects with ToolAppError or the signal's reason. */
  async getTools(signal: AbortSignal): Promise<ReadonlyMap<string, LiveTool>> {
    const { count, isNotified } = this.#options.changes;
    if (!this.#tools || !isNotified || this.#options.changes.knownCount !== count) {
      this.#options.changes.knownCount = count;
      const listing = this.#fetchTools();
      this.#tools = listing;
      listing.catch(() => {
        if (this.#tools === listing) this.#tools = undefined;
      });
    }
    return await raceWithAbort(this.#tools, signal);
  }

  /**
   * Sends the call exactly once. Rejects with ToolAppError or the signal's reason. A call that exceeds its time limit
   * is not cancelled, because the app may have done a part of it: `late` of the error resolves to the app's late
   * answer.
   */
  async call(name: string, args: JsonObject, signal: AbortSignal): Promise<ToolResult> {
    const { appId, client, limits } = this.#options;
    if (this.#calls >= limits.callsMax) {
      const message = `${appId} already has ${this.#calls} calls to answer: try again later`;
      throw new ToolAppError("app_unavailable", message);
    }
    // The SDK's client.callTool is not used, because it would compile the app's output schema and might send a call
    // twice.
    const send = async (options: { signal: AbortSignal; timeout: number }): Promise<ToolResult> => {
      const result = await client.request(
        { method: "tools/call", params: { name, arguments: { ...args } } },
        this.#callResultSchema,
        options,
      );
      return {
        structured: toStructuredResult(result.structuredContent),
        content: result.content,
        isError: result.isError === true,
      };
    };
    return await this.#exchange(limits.callTimeoutMs, signal, send, (answer, cancel) =>
      this.#lateAnswers.wait(answer, cancel),
    );
  }

  async close(): Promise<void> {
    await this.#options.transport.close();
  }

  async #fetchTools(): Promise<ReadonlyMap<string, LiveTool>> {
    if (!this.#options.client.getServerCapabilities()?.tools) return new Map();
    return await this.#exchange(
      this.#options.limits.listTimeoutMs,
      new AbortController().signal,
      (options) =>
        listTools(
          this.#options.appId,
          this.#options.limits,
          async (cursor) =>
            await this.#options.client.request(
              { method: "tools/list", ...(cursor !== undefined && { params: { cursor } }) },
              options,
            ),
        ),
    );
  }

  /**
   * Sends one request with a time limit, and turns errors into ToolAppError. After the time limit the request is
   * cancelled, or passed to `awaitLate`, whose promise becomes `late` of the error.
   */
  async #exchange<T>(
    limitMs: number,
    signal: AbortSignal,
    send: (options: { signal: AbortSignal; timeout: number }) => Promise<T>,
    awaitLate?: (answer: Promise<T>, cancel: () => void) => ToolAppError["late"],
  ): Promise<T> {
    const { appId, clock, limits } = this.#options;
    signal.throwIfAborted();
    this.#calls += 1;
    this.#stopIdleTimer();
    const stop = new AbortController();
    // The reason of the abort is sent to the app, so the caller's own reason must not be used.
    const onAbort = () => stop.abort("cancelled");
    const cancel = () => stop.abort("timed out");
    signal.addEventListener("abort", onAbort, { once: true });
    // The timers of this class end the request, because the SDK's own timers use real time.
    const timeout = 2 * (limitMs + limits.lateAnswerMs);
    const answer = send({ signal: stop.signal, timeout }).catch(async (error: unknown) => {
      throw await this.#toFailure(error);
    });
    const expiry = new AbortController();
    const stopTimer = clock.setTimer(limitMs, () => {
      const late = awaitLate?.(answer, cancel);
      if (!late) cancel();
      const message = `${appId} did not answer within ${Math.ceil(limitMs / 1000)} s`;
      expiry.abort(new ToolAppError("timeout", message, { late }));
    });
    try {
      return await raceWithAbort(answer, expiry.signal);
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      stopTimer();
      signal.removeEventListener("abort", onAbort);
      this.#calls -= 1;
      this.#startIdleTimer();
    }
  }

  /** Converts the error of a request. Closes the connection to an app that sent a wrong answer. */
  async #toFailure(error: unknown): Promise<ToolAppError> {
    const { appId, transport } = this.#options;
    if (transport.closeReason) return transport.closeReason;
    const failure = toRequestFailure(appId, error);
    // Validating a wrong answer is expensive, so the connection to an app that sends one is closed.
    if (failure.code === "bad_result") await this.close();
    return this.isClosed && failure.code === "timeout"
      ? connectionLostError(appId, error)
      : failure;
  }

  #startIdleTimer(): void {
    if (this.#calls > 0 || this.#lateAnswers.count > 0 || this.isClosed) return;
    this.#stopIdleTimer = this.#options.clock.setTimer(
      this.#options.limits.idleTimeoutMs,
      () => void this.close(),
    );
  }

  /**
   * Stops trusting the cached tools when the subscription ends. Apps with the 2026 revision of MCP report changes only
   * during a subscription; without a subscription, the list is read for each call.
   */
  #watchSubscription(): void {
    if (this.#options.client.getProtocolEra() !== "modern") return;
    const doesChange = this.#options.client.getServerCapabilities()?.tools?.listChanged === true;
    const subscription = this.#options.client.autoOpenedSubscription;
    this.#options.changes.isNotified = !doesChange || subscription !== undefined;
    void subscription?.closed.then(() => {
      this.#options.changes.isNotified = false;
      return undefined;
    });
  }
}

interface ToolChanges {
  /**
   * The number of received notifications `tools/list_changed`, with which the app reports that its tools have changed.
   */
  count: number;
  /**
   * The number of notifications `tools/list_changed` before the last `tools/list`. While `count` is greater, the cached
   * tools are outdated.
   */
  knownCount?: number;
  isNotified: boolean;
}

/**
 * Returns the structured result as an object. Since MCP 2026 structuredContent may be any value. A value that is not an
 * object becomes the member `result` of a new object, as in older revisions of MCP.
 */
function toStructuredResult(value: unknown): JsonObject | undefined {
  if (value === undefined) return undefined;
  return isObject(value) ? value : { result: value };
}
