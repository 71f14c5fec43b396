import type { Socket } from "node:net";
import { Client, SdkError, SdkErrorCode } from "@modelcontextprotocol/client";
import type { Clock } from "../../../base/clock.ts";
import { ToolAppError } from "../tool-apps.ts";
import { requestFailure } from "./failures.ts";
import type { McpLimits } from "./limits.ts";
import { SocketTransport } from "./socket-transport.ts";

/** A connection on which app and daemon have agreed how to speak. */
export interface Greeted {
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
export async function handshake(options: HandshakeOptions): Promise<Greeted> {
  const first = await attempt(options, "any");
  if (first.greeted) return first.greeted;
  const second = await attempt(options, "older");
  if (second.greeted) return second.greeted;
  throw second.failure;
}

type Attempt =
  | { readonly greeted: Greeted; readonly failure?: never }
  /** The app may be of the older era. */
  | { readonly greeted?: never; readonly failure: ToolAppError };

async function attempt(options: HandshakeOptions, era: "any" | "older"): Promise<Attempt> {
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
  const stopTimer = clock.setTimer(limits.handshakeMs, () =>
    bound.abort(new ToolAppError("timeout", `${appId} took the connection and said nothing`)),
  );
  if (options.signal.aborted) follow();
  const client = newClient(options);
  try {
    await client.connect(transport, {
      // Bounded by the signal: the SDK's own timers are real time.
      timeout: 2 * limits.handshakeMs,
      signal: bound.signal,
      ...(era === "older" && { prior: { kind: "legacy" as const } }),
    });
    if (transport.isClosed) throw new SdkError(SdkErrorCode.ConnectionClosed, "closed");
    return { greeted: { client, transport } };
  } catch (error) {
    await transport.close();
    if (bound.signal.aborted) throw bound.signal.reason;
    if (transport.endedBy) throw transport.endedBy;
    const failure = requestFailure(appId, error);
    if (era === "any" && mayBeOlder(error)) return { failure };
    // A refusal to speak at all is no tool that failed.
    if (failure.code !== "tool_error") throw failure;
    throw new ToolAppError("bad_result", failure.message, { cause: error });
  } finally {
    stopTimer();
    options.signal.removeEventListener("abort", follow);
  }
}

function newClient(options: HandshakeOptions): Client {
  return new Client(
    { name: "berth", version: options.version },
    {
      // Sampling, elicitation and roots are for hosts with a person before them: refused.
      capabilities: {},
      inputRequired: { autoFulfill: false },
      versionNegotiation: { mode: "auto", probe: { timeoutMs: options.limits.probeMs } },
      listChanged: {
        tools: { autoRefresh: false, debounceMs: 0, onChanged: options.onToolsChanged },
      },
    },
  );
}

function mayBeOlder(error: unknown): boolean {
  return (
    error instanceof SdkError &&
    (error.code === SdkErrorCode.EraNegotiationFailed || error.code === SdkErrorCode.RequestTimeout)
  );
}
