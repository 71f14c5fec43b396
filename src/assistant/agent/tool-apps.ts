import type { FailedCode, JsonObject } from "./port.ts";

/**
 * The apps that provide the tools, connected by MCP over their sockets and started on demand. If an app hangs, dies,
 * floods or sends invalid answers, only calls of that app's own tools fail.
 */
export interface ToolApps {
  /**
   * Connects to the app and resolves to its current definition of the tool `name`; undefined if the app has no such
   * tool. Starts an app that is not running if `isActivatable`. The tool list is cached per connection and read again
   * when the app reports a change. Rejects with ToolAppError: `app_unavailable`, `activation_timeout`,
   * `transport_closed`, `timeout`, `bad_result`.
   */
  getDefinition(app: AppAddress, name: string, signal: AbortSignal): Promise<LiveTool | undefined>;

  /**
   * Calls the tool; `getDefinition` must have been called before. A call is never sent twice: if the connection is lost
   * during the call, the error is `transport_closed`, and it is unknown whether the tool ran. Rejects with
   * ToolAppError; an abort sends a cancellation and rejects with the signal's reason. After a `timeout` the app may
   * still answer: `late` of the error is that answer.
   */
  call(app: AppAddress, name: string, args: JsonObject, signal: AbortSignal): Promise<ToolResult>;

  /** Returns true if the app is connected now; does not connect. */
  isConnected(appId: string): boolean;

  /**
   * Returns true if the app is connected, listens on its socket, or can be started. Sends nothing to the app and starts
   * nothing. It is used to avoid a confirmation prompt for a call that cannot run.
   */
  isReachable(app: AppAddress): Promise<boolean>;
}

export interface AppAddress {
  readonly appId: string;
  readonly isActivatable: boolean;
}

export interface LiveTool {
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly inputSchema: JsonObject;
}

export interface ToolResult {
  /** The structuredContent of the result; undefined if the tool returned none. */
  readonly structured: JsonObject | undefined;
  readonly content: readonly unknown[];
  /** True if the tool reports that it failed; the content gives the reason. */
  readonly isError: boolean;
}

/** The answer of an app after the time limit of a call: its result, or a `tool_error`. */
export type LateAnswer = ToolResult | ToolAppError;

/** An error of an app. `message` is one line without paths; text from the app is cut to 500 characters. */
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

  /**
   * Only for the `timeout` of a call: resolves to the answer of the app, or to undefined if the app gives none within
   * several minutes. Never rejects.
   */
  readonly late: Promise<LateAnswer | undefined> | undefined;

  constructor(
    code: ToolAppError["code"],
    message: string,
    options: { cause?: unknown; late?: Promise<LateAnswer | undefined> | undefined } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "ToolAppError";
    this.code = code;
    this.late = options.late;
  }
}
