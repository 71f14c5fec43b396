import type { Socket } from "node:net";
import { Client, SdkError, SdkErrorCode } from "@modelcontextprotocol/client";
import type { Clock } from "../../../base/clock.ts";
import { ToolAppError } from "../tool-apps.ts";
import type { McpLimits } from "./mcp-limits.ts";
import { toRequestFailure } from "./request-failure.ts";
import { SocketTransport } from "./socket-transport.ts";

/** A connection on which app and daemon have agreed how to speak. */
export interface HandshakeResult {
  readonly client: Client;
  readonly transport: SocketTransport;
}

export interface HandshakeOptions {
  readonly appId: string;
  /** A new connection each time. */
  readonly open: (signal: AbortSignal) => Promise<Socket>;
  /** The app says that its list of tools has changed. */
  readonly onToolsChanged: () => void;
  /** Of any connection that was opened, once. */
  readonly onEnded: (transport: SocketTransport) => void;
  /** Of Berth, as apps are told. */
  readonly version: string;
  readonly clock: Clock;
  readonly limits: McpLimits;
  readonly signal: AbortSignal;
}

/**
 * Finds out which era of MCP the app is of: `server/discover` of 2026 first, `initialize` of 2024 and 2025
 * where the answer shows that it does not know that. Apps of the older era that close, or say nothing, on
 * what they do not know are greeted again on a connection of its own. Rejects with ToolAppError.
 */
export async function performHandshake(options: HandshakeOptions): Promise<HandshakeResult> {
  const first = await attemptHandshake(options, "any");
  if (first.greeted) return first.greeted;
  const second = await attemptHandshake(options, "older");
  if (second.greeted) return second.greeted;
  throw second.failure;
}

type HandshakeAttempt =
  | { readonly greeted: HandshakeResult; readonly failure?: never }
  /** The app may be of the older era. */
  | { readonly greeted?: never; readonly failure: ToolAppError };

async function attemptHandshake(
  options: HandshakeOptions,
  era: "any" | "older",
): Promise<HandshakeAttempt> {
  const { appId, clock, limits } = options;
  const socket = await options.open(options.signal);
  const transport = new SocketTransport({
    appId,
    socket,
    clock,
    limits,
    onEnded: () => options.onEnded(transport),
  });
  const bound = new AbortController();
  bound.signal.addEventListener("abort", () => void transport.close());
  const follow = () => bound.abort(options.signal.reason);
  options.signal.addEventListener("abort", follow, { once: true });
  const stopTimer = clock.setTimer(limits.handshakeTimeoutMs, () =>
    bound.abort(new ToolAppError("timeout", `${appId} took the connection and said nothing`)),
  );
  if (options.signal.aborted) follow();
  const client = createClient(options);
  try {
    await client.connect(transport, {
      // Bounded by the signal: the SDK's own timers are real time.
      timeout: 2 * limits.handshakeTimeoutMs,
      signal: bound.signal,
      ...(era === "older" && { prior: { kind: "legacy" as const } }),
    });
    if (transport.isClosed) throw new SdkError(SdkErrorCode.ConnectionClosed, "closed");
    return { greeted: { client, transport } };
  } catch (error) {
    await transport.close();
    if (bound.signal.aborted) throw bound.signal.reason;
    if (transport.closeReason) throw transport.closeReason;
    const failure = toRequestFailure(appId, error);
    if (era === "any" && mayBeLegacy(error)) return { failure };
    // A refusal to speak at all is no tool that failed.
    if (failure.code !== "tool_error") throw failure;
    throw new ToolAppError("bad_result", failure.message, { cause: error });
  } finally {
    stopTimer();
    options.signal.removeEventListener("abort", follow);
  }
}

function createClient(options: HandshakeOptions): Client {
  return new Client(
    { name: "berth", version: options.version },
    {
      // Sampling, elicitation and roots are for hosts with a person before them: refused.
      capabilities: {},
      inputRequired: { autoFulfill: false },
      versionNegotiation: { mode: "auto", probe: { timeoutMs: options.limits.probeTimeoutMs } },
      listChanged: {
        tools: { autoRefresh: false, debounceMs: 0, onChanged: options.onToolsChanged },
      },
    },
  );
}

function mayBeLegacy(error: unknown): boolean {
  return (
    error instanceof SdkError &&
    (error.code === SdkErrorCode.EraNegotiationFailed || error.code === SdkErrorCode.RequestTimeout)
  );
}
