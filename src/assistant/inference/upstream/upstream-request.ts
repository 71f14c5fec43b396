import type { EmbedRequest, GenerateRequest } from "../service-port.ts";
import {
  chatLogprobsFields,
  formatField,
  getChatPrompt,
  messageFields,
  samplingFields,
  stopField,
  toolChoiceField,
  toolsField,
  type WireRequest,
} from "../wire/request-fields.ts";

/**
 * Builds the HTTP request to the system instance. It always requests a stream, because only a stream shows that the
 * system instance is alive. With `svc_counts` the system instance sends token counts as they become known; with
 * `svc_hold` it holds back an answer with a schema until it has been checked. Members that are undefined are omitted
 * from the JSON. Throws AssistantError `invalid_request`.
 */
export function buildGenerateRequest(request: GenerateRequest): WireRequest {
  const common = {
    ...commonFields(request),
    n: request.n,
    stream: true,
    stream_options: { include_usage: true, svc_counts: true, svc_hold: !request.isStreamed },
    ...samplingFields(request),
    // A limit of -1 means that the answer may extend to the end of the context.
    max_tokens: request.maxTokens === Number.POSITIVE_INFINITY ? -1 : request.maxTokens,
    stop: stopField(request),
    response_format: formatField(request.guide),
  };
  const chat = getChatPrompt(request);
  if (!chat) {
    const { logprobs } = request.sampling;
    const prompt = request.prompts.map((item) =>
      item.kind === "text" ? item.text : item.kind === "tokens" ? item.tokens : undefined,
    );
    return { path: "/v1/completions", body: { ...common, prompt, logprobs } };
  }
  const tools = toolsField(chat.tools);
  const body = {
    ...common,
    messages: chat.messages.map((message) => messageFields(message)),
    chat_template_kwargs: Object.keys(chat.variables).length === 0 ? undefined : chat.variables,
    tools,
    tool_choice: tools && toolChoiceField(request.toolChoice),
    parallel_tool_calls: tools && request.parallelToolCalls,
    ...chatLogprobsFields(request),
  };
  return { path: "/v1/chat/completions", body };
}

export function buildEmbedRequest(request: EmbedRequest): WireRequest {
  return {
    path: "/v1/embeddings",
    body: {
      ...commonFields(request),
      input: request.texts,
      // Base64 transfers the vectors exactly, in a fifth of the bytes that decimal digits take.
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
