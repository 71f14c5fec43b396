import { AssistantError } from "../../errors.ts";
import type { ChatMessage, Prompt } from "../runner.ts";
import type { EmbedRequest, GenerateRequest, Guide, ToolChoice } from "../service-port.ts";

/** A request as it goes to the system instance. */
export interface WireRequest {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/**
 * What JSON.stringify leaves out is what the request does not say. Always a stream, since only a stream
 * tells that the other side is alive; `svc_counts` has it tell counts as they become known, `svc_hold` has
 * it hold back a guided answer until it has been checked. Throws AssistantError `invalid_request`.
 */
export function generateRequest(request: GenerateRequest): WireRequest {
  const [first] = request.prompts;
  const common = {
    ...commonFields(request),
    n: request.n,
    stream: true,
    stream_options: { include_usage: true, svc_counts: true, svc_hold: !request.isStreamed },
    ...samplingFields(request),
    // -1: to the end of the context.
    max_tokens: request.maxTokens === Number.POSITIVE_INFINITY ? -1 : request.maxTokens,
    stop: request.stop.length === 0 ? undefined : request.stop,
    response_format: formatOf(request.guide),
  };
  if (first?.kind !== "chat") {
    const { logprobs } = request.sampling;
    const prompt = request.prompts.map((item) => plainPrompt(item));
    return { path: "/v1/completions", body: { ...common, prompt, logprobs } };
  }
  if (request.prompts.length > 1) throw mixed();
  return { path: "/v1/chat/completions", body: { ...common, ...chatFields(request, first) } };
}

export function embedRequest(request: EmbedRequest): WireRequest {
  return {
    path: "/v1/embeddings",
    body: {
      ...commonFields(request),
      input: request.texts,
      // Every bit of a vector, in a fifth of the bytes that digits take.
      encoding_format: "base64",
      svc_counts: true,
    },
  };
}

function commonFields(request: GenerateRequest | EmbedRequest) {
  return {
    model: request.model,
    svc_priority: request.priority,
    keep_alive:
      request.keepAliveMs === Number.POSITIVE_INFINITY
        ? -1
        : request.keepAliveMs === undefined
          ? undefined
          : request.keepAliveMs / 1000,
  };
}

function samplingFields({ sampling }: GenerateRequest) {
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

function chatFields(request: GenerateRequest, chat: Prompt & { readonly kind: "chat" }) {
  const { logprobs } = request.sampling;
  const hasTools = chat.tools.length > 0;
  return {
    messages: chat.messages.map((message) => messageFields(message)),
    chat_template_kwargs: Object.keys(chat.variables).length === 0 ? undefined : chat.variables,
    tools: hasTools
      ? chat.tools.map(({ name, description, parameters }) => ({
          type: "function",
          function: { name, description, parameters },
        }))
      : undefined,
    tool_choice: hasTools ? toolChoiceField(request.toolChoice) : undefined,
    parallel_tool_calls: hasTools ? request.parallelToolCalls : undefined,
    logprobs: logprobs === undefined ? undefined : true,
    top_logprobs: logprobs,
  };
}

function messageFields(message: ChatMessage) {
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

function toolChoiceField(choice: ToolChoice) {
  return choice.kind === "function"
    ? { type: "function", function: { name: choice.name } }
    : choice.kind;
}

function formatOf(guide: Guide) {
  if (guide.kind === "none") return undefined;
  if (guide.kind === "json_object") return { type: "json_object" };
  const { name, schema, strict } = guide;
  return { type: "json_schema", json_schema: { name, schema, strict } };
}

function plainPrompt(prompt: Prompt): string | readonly number[] {
  if (prompt.kind === "chat") throw mixed();
  return prompt.kind === "text" ? prompt.text : prompt.tokens;
}

function mixed(): AssistantError {
  return new AssistantError(
    "invalid_request",
    "a chat cannot be answered together with other prompts: send one request for each",
    { param: "prompts" },
  );
}
