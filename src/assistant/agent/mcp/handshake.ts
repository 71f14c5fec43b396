import type { Socket } from "node:net";
import { Client, SdkError, SdkErrorCode } from "@modelcontextprotocol/client";
import type { Clock } from "../../../base/clock.ts";
import { ToolAppError } from "../tool-apps.ts";
import type { McpLimits } from "./mcp-limits.ts";
import { toRequestFailure } from "./request-failure.ts";
import { SocketTransport } from "./socket-transport.ts";

/** A connection after a successful MCP handshake. */
export interface HandshakeResult {
  readonly client: Client;
  readonly transport: SocketTransport;
}

export interface HandshakeOptions {
  readonly appId: string;
  /** Opens a new connection each time it is called. */
  readonly open: (signal: AbortSignal) => Promise<Socket>;
  /** Called when the app reports that its list of tools has changed. */
  readonly onToolsChanged: () => void;
  /** Called once for each connection that `open` returned, when that connection ends. */
  readonly onEnded: (transport: SocketTransport) => void;
  /** Berth's version, which is sent to apps. */
  readonly version: string;
  readonly clock: Clock;
  readonly limits: McpLimits;
  readonly signal: AbortSignal;
}

/**
 * Negotiates the MCP revision: first `server/discover` of 2026, then `initialize` of 2024 and 2025 if the answer shows
 * that the app does not know `server/discover`. An older app that closes the connection or does not answer
 * `server/discover` gets `initialize` on a new connection. Rejects with ToolAppError.
 */
export async function performHandshake(options: HandshakeOptions): Promise<HandshakeResult> {
  const first = await attemptHandshake(options, "any");
  if (first.established) return first.established;
  const second = await attemptHandshake(options, "older");
  if (second.established) return second.established;
  throw second.failure;
}

type HandshakeAttempt =
  | { readonly established: HandshakeResult; readonly failure?: never }
  /** The attempt failed, but may succeed with an older revision of MCP. */
  | { readonly established?: never; readonly failure: ToolAppError };

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
    bound.abort(new ToolAppError("timeout", `${appId} accepted the connection and did not answer`)),
  );
  if (options.signal.aborted) follow();
  const client = createClient(options);
  try {
    await client.connect(transport, {
      // The signal enforces the time limit, because the SDK's own timers use real time.
      timeout: 2 * limits.handshakeTimeoutMs,
      signal: bound.signal,
      ...(era === "older" && { prior: { kind: "legacy" as const } }),
    });
    if (transport.isClosed) throw new SdkError(SdkErrorCode.ConnectionClosed, "closed");
    return { established: { client, transport } };
  } catch (error) {
    await transport.close();
    if (bound.signal.aborted) throw bound.signal.reason;
    if (transport.closeReason) throw transport.closeReason;
    const failure = toRequestFailure(appId, error);
    if (era === "any" && mayBeLegacy(error)) return { failure };
    // An error of the handshake does not come from a tool call, so the code `tool_error` becomes `bad_result`.
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
      // The client declares no sampling, elicitation or roots, because these need an interactive host.
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
