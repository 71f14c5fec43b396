import type { FailedCode, JsonObject } from "./port.ts";

/**
 * The apps behind the tools, as the agent calls them: MCP over the app's socket, with activation. An app
 * that hangs, dies, floods or answers nonsense costs its own call, and nothing else.
 */
export interface ToolApps {
  /**
   * Connects, starting the app where it is not there and `isActivatable`, and resolves to what its tool
   * `name` is now; undefined: it has no such tool. Remembered for a connection, and asked anew when the app
   * says that its list has changed. Rejects with ToolAppError: `app_unavailable`, `activation_timeout`,
   * `transport_closed`, `timeout`, `bad_result`.
   */
  getDefinition(app: AppAddress, name: string, signal: AbortSignal): Promise<LiveTool | undefined>;

  /**
   * Calls the tool, after `definition` has been asked. Never sent twice: a connection that is lost on the way
   * is `transport_closed`, and whether the tool ran is not known. Rejects with ToolAppError; an abort sends a
   * cancellation and rejects with the signal's reason.
   */
  call(app: AppAddress, name: string, args: JsonObject, signal: AbortSignal): Promise<ToolResult>;

  /** Whether there is a connection just now; makes none. */
  isConnected(appId: string): boolean;

  /**
   * Whether a call has anybody to go to: a connection, a socket, or a way to start the app. Connects to nobody
   * and starts nothing, so that a person is not asked about what cannot happen.
   */
  isReachable(app: AppAddress): Promise<boolean>;
}

export interface AppAddress {
  readonly appId: string;
  readonly isActivatable: boolean;
}

export interface LiveTool {
  readonly description: string | undefined;
  readonly inputSchema: JsonObject;
}

export interface ToolResult {
  /** structuredContent; undefined: the tool gave none. */
  readonly structured: JsonObject | undefined;
  readonly content: readonly unknown[];
  /** The tool itself says that it failed; the content says why. */
  readonly isError: boolean;
}

/** `message` is one line without a path; an app's own words are cut to 500 characters, in one line. */
export class ToolAppError extends Error {
  readonly code: Extract<
    FailedCode,
    | "app_unavailable"
    | "activation_timeout"
    | "transport_closed"
    | "timeout"
    | "bad_result"
    | "result_too_large"
    | "tool_error"
  >;

  constructor(code: ToolAppError["code"], message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = "ToolAppError";
    this.code = code;
  }
}
