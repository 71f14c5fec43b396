import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { field } from "./default-response.ts";
import type { ScriptedResponse } from "./scripted-response.ts";
import type { ProviderRequest } from "./test-provider.ts";

type ChatResponse = Extract<ScriptedResponse, { type: "chat" }>;

export async function sendResponse(
  turn: ScriptedResponse,
  request: ProviderRequest,
  response: ServerResponse,
): Promise<void> {
  switch (turn.type) {
    case "hang":
      return;
    case "reset":
      response.socket?.resetAndDestroy();
      return;
    case "raw": {
      const { socket } = response;
      if (!socket) return;
      if (turn.afterwards === "end") socket.end(turn.bytes);
      else socket.write(turn.bytes, () => turn.afterwards === "cut" && socket.destroy());
      return;
    }
    case "status": {
      const isText = typeof turn.body === "string" || turn.body instanceof Uint8Array;
      const body = turn.body === undefined || isText ? turn.body : JSON.stringify(turn.body);
      const type = isText || body === undefined ? {} : { "content-type": "application/json" };
      response.writeHead(turn.status, { ...type, ...turn.headers }).end(body);
      return;
    }
    case "chat":
      await (field(request.body, "stream") === true
        ? sendStream(turn, request, response)
        : sendWhole(turn, request, response));
  }
}

/** Resolves when the response accepts more data, or when the client has disconnected. */
async function untilWritable(response: ServerResponse): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  const either = [once(response, "drain", { signal }), once(response, "close", { signal })];
  await Promise.race(either).finally(() => over.abort());
}

async function sendStream(
  turn: ChatResponse,
  request: ProviderRequest,
  response: ServerResponse,
): Promise<void> {
  let sent = Promise.resolve();
  const send = async (data: string) => {
    if (response.destroyed) throw new Error("nobody listens any more");
    let isRoom = true;
    sent = new Promise((resolve) => {
      isRoom = response.write(`data: ${data}\n\n`, () => resolve());
    });
    if (!isRoom) await untilWritable(response);
  };
  const chunk = (delta: unknown, finish: string | null = null) =>
    JSON.stringify({
      ...common(request, "chat.completion.chunk"),
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  await send(chunk({ role: "assistant", content: "" }));
  const text = turn.text ?? [];
  for (let piece = 0; piece <= text.length; piece++) {
    if (turn.afterwards?.after === piece) {
      // The client must receive all earlier data, so the connection is cut only after that data has been sent.
      await sent;
      if (turn.afterwards.do === "cut") response.socket?.destroy();
      return;
    }
    await turn.before?.(piece);
    const content = text[piece];
    if (content !== undefined) await send(chunk({ content }));
  }
  for (const [index, call] of (turn.toolCalls ?? []).entries()) {
    const { id, name } = call;
    const part = { index, id, type: "function", function: { name, arguments: call.arguments } };
    await send(chunk({ tool_calls: [part] }));
  }
  if (turn.error) {
    await send(JSON.stringify({ error: { type: "provider_error", param: null, ...turn.error } }));
    response.end();
    return;
  }
  await send(chunk({}, finishOf(turn)));
  if (field(field(request.body, "stream_options"), "include_usage") === true)
    await send(
      JSON.stringify({
        ...common(request, "chat.completion.chunk"),
        choices: [],
        usage: usageOf(turn),
      }),
    );
  await send("[DONE]");
  response.end();
}

async function sendWhole(
  turn: ChatResponse,
  request: ProviderRequest,
  response: ServerResponse,
): Promise<void> {
  await turn.before?.(0);
  const calls = turn.toolCalls?.map(({ id, ...called }) => ({
    id,
    type: "function",
    function: called,
  }));
  const body = JSON.stringify({
    ...common(request, "chat.completion"),
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: (turn.text ?? []).join(""),
          ...(calls && { tool_calls: calls }),
        },
        finish_reason: finishOf(turn),
      },
    ],
    usage: usageOf(turn),
  });
  response.writeHead(200, { "content-type": "application/json" });
  if (!turn.afterwards) response.end(body);
  else
    response.write(
      body.slice(0, 20),
      () => turn.afterwards?.do === "cut" && response.socket?.destroy(),
    );
}

function common(request: ProviderRequest, object: string) {
  const model = field(request.body, "model");
  return { id: `test-${request.number}`, object, created: 1_700_000_000, model };
}

function finishOf(turn: ChatResponse): string {
  return turn.finishReason ?? (turn.toolCalls ? "tool_calls" : "stop");
}

function usageOf(turn: ChatResponse) {
  const completion = turn.text?.length ?? 0;
  return (
    turn.usage ?? {
      prompt_tokens: 5,
      completion_tokens: completion,
      total_tokens: 5 + completion,
    }
  );
}
