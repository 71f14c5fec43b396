/** The response of a provider to one request. Omitted fields have the values of the well-behaved provider. */
export type ScriptedResponse =
  /** The answer to a chat request, streamed if the request asks for a stream. */
  | {
      readonly type: "chat";
      /** The text of the answer; each piece is an event of the stream. */
      readonly text?: readonly string[];
      readonly toolCalls?: readonly ToolCall[];
      readonly finishReason?: string;
      readonly usage?: Usage;
      /**
       * Returns a promise that is awaited before the piece with this number (from 0) is sent. The last number is that
       * of the event that finishes the answer.
       */
      readonly before?: (piece: number) => Promise<unknown> | undefined;
      /**
       * Determines what happens after the first `after` pieces: `cut` closes the connection, and `hang` keeps it open
       * without further data.
       */
      readonly afterwards?: { readonly after: number; readonly do: "cut" | "hang" };
      /** An error that is sent as an event after the text, instead of the event that finishes the answer. */
      readonly error?: { readonly message: string; readonly code?: string };
    }
  | {
      readonly type: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      /** The body of the response; a value that is neither text nor bytes is sent as JSON. */
      readonly body?: unknown;
    }
  /** The provider writes these bytes to the connection unchanged. */
  | {
      readonly type: "raw";
      readonly bytes: string | Uint8Array;
      readonly afterwards: "end" | "cut" | "hang";
    }
  /** The provider never answers, and the connection stays open. */
  | { readonly type: "hang" }
  /** The provider closes the connection before an answer. */
  | { readonly type: "reset" };

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments of the call, as JSON text. */
  readonly arguments: string;
}

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

/** Returns an error response in the format of the chat-completions API. */
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
