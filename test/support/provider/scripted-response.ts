/** What a provider does with one request. What is not said is as a well-behaved one does it. */
export type ScriptedResponse =
  /** A chat's answer, streamed where the request says so. */
  | {
      readonly type: "chat";
      /** Each piece is an event of a stream. */
      readonly text?: readonly string[];
      readonly toolCalls?: readonly ToolCall[];
      readonly finishReason?: string;
      readonly usage?: Usage;
      /** Waited for before the piece of this number (from 0) is sent; the last is the finish. */
      readonly before?: (piece: number) => Promise<unknown> | undefined;
      /** After so many pieces the connection is cut, or stays open without a word. */
      readonly afterwards?: { readonly after: number; readonly do: "cut" | "hang" };
      /** After the text an event that holds this error, in place of the finish. */
      readonly error?: { readonly message: string; readonly code?: string };
    }
  | {
      readonly type: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      /** Anything but a text or bytes is sent as JSON. */
      readonly body?: unknown;
    }
  /** These bytes on the connection, whatever they are. */
  | {
      readonly type: "raw";
      readonly bytes: string | Uint8Array;
      readonly afterwards: "end" | "cut" | "hang";
    }
  /** No answer, on an open connection. */
  | { readonly type: "hang" }
  /** The connection ends before an answer. */
  | { readonly type: "reset" };

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

/** A refusal as the convention words it. */
export function refusal(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
  code: string | null = null,
): ScriptedResponse {
  const error = { message, type: "provider_error", param: null, code };
  return { type: "status", status, headers, body: { error } };
}

export function redirect(to: string, status = 302): ScriptedResponse {
  return { type: "status", status, headers: { location: to } };
}
