import { field } from "./default-response.ts";
import type { ScriptedResponse } from "./scripted-response.ts";
import type { ProviderRequest } from "./test-provider.ts";

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
const BEGUN = `data: ${JSON.stringify({
  id: "faulty",
  object: "chat.completion.chunk",
  created: 1_700_000_000,
  model: "test-model",
  choices: [{ index: 0, delta: { role: "assistant", content: "Grüße " }, finish_reason: null }],
})}\n\n`;
const TRICKLED = ["It ", "comes ", "in ", "drops."];
const DROP_MS = 15;

/** The text of an answer that arrives slowly. */
export const trickled = TRICKLED.join("");

/**
 * The faulty answers by name. A chat request selects one by a text such as `#reset`. Other chats get the
 * well-behaved answer.
 */
export const faultyResponses = {
  "hang-head": { type: "hang" },
  hang: { type: "chat", text: ["One", " two"], afterwards: { after: 2, do: "hang" } },
  reset: { type: "reset" },
  cut: { type: "chat", text: ["One", " two"], afterwards: { after: 2, do: "cut" } },
  "half-event": raw(`${BEGUN}data: {"id":"faulty","choi`),
  "half-letter": raw(
    Buffer.from(`${BEGUN}data: {"choices":[{"delta":{"content":"ü`).subarray(0, -1),
  ),
  trickle: { type: "chat", text: TRICKLED, before: drop },
} as const satisfies Readonly<Record<string, ScriptedResponse>>;

export type FaultName = keyof typeof faultyResponses;

export function findFaultyResponse(request: ProviderRequest): ScriptedResponse | undefined {
  const messages = field(request.body, "messages");
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  const name = /#([\w-]+)/.exec(String(field(last, "content")))?.[1];
  return name !== undefined && isFault(name) ? faultyResponses[name] : undefined;
}

function isFault(name: string): name is FaultName {
  return Object.hasOwn(faultyResponses, name);
}

/** Sends one chunk of a body that never ends. */
function raw(body: string | Buffer): ScriptedResponse {
  const bytes = Buffer.from(body);
  return {
    type: "raw",
    bytes: Buffer.concat([
      Buffer.from(`${HEAD}transfer-encoding: chunked\r\n\r\n${bytes.length.toString(16)}\r\n`),
      bytes,
      Buffer.from("\r\n"),
    ]),
    afterwards: "cut",
  };
}

function drop(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, DROP_MS);
  });
}
