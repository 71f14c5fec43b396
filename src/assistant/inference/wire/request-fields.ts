import { AssistantError } from "../../assistant-error.ts";
import type { ChatMessage, Prompt, ToolDefinition } from "../runner.ts";
import type { GenerateRequest, Guide, ToolChoice } from "../service-port.ts";

/** A request in the wire format. Members that are undefined are omitted by JSON.stringify. */
export interface WireRequest {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export type ChatPrompt = Prompt & { readonly kind: "chat" };

/**
 * Returns the chat of a request; undefined if its prompts are plain texts. Throws AssistantError `invalid_request` for
 * a chat together with other prompts.
 */
export function getChatPrompt({ prompts }: GenerateRequest): ChatPrompt | undefined {
  const chat = prompts.find((prompt) => prompt.kind === "chat");
  if (chat && prompts.length > 1)
    throw new AssistantError(
      "invalid_request",
      "a chat cannot be answered together with other prompts: send one request for each",
      { param: "prompts" },
    );
  return chat;
}

export function samplingFields({ sampling }: GenerateRequest) {
  return {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    seed: sampling.seed,
    repeat_penalty: sampling.repeatPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    logit_bias: sampling.logitBias,
  };
}

export function chatLogprobsFields({ sampling: { logprobs } }: GenerateRequest) {
  return { logprobs: logprobs === undefined ? undefined : true, top_logprobs: logprobs };
}

export function stopField({ stop }: GenerateRequest) {
  return stop.length === 0 ? undefined : stop;
}

export function messageFields(message: ChatMessage) {
  return {
    role: message.role,
    content: message.content,
    name: message.name,
    tool_calls: message.toolCalls?.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: call.arguments },
    })),
    tool_call_id: message.toolCallId,
  };
}

/**
 * Converts tools to the field `tools` of a request. Returns undefined if there are none, because some servers reject an
 * empty list.
 */
export function toolsField(tools: readonly ToolDefinition[]) {
  if (tools.length === 0) return undefined;
  return tools.map(({ name, description, parameters }) => ({
    type: "function",
    function: { name, description, parameters },
  }));
}

export function toolChoiceField(choice: ToolChoice) {
  return choice.kind === "function"
    ? { type: "function", function: { name: choice.name } }
    : choice.kind;
}

export function formatField(guide: Guide) {
  if (guide.kind === "none") return undefined;
  if (guide.kind === "json_object") return { type: "json_object" };
  const { name, schema, strict } = guide;
  return { type: "json_schema", json_schema: { name, schema, strict } };
}
