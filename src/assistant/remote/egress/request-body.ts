import { AssistantError } from "../../assistant-error.ts";
import type { ChatMessage, Prompt } from "../../inference/runner.ts";
import type { EmbedRequest, GenerateRequest } from "../../inference/service-port.ts";
import {
  type ChatPrompt,
  chatLogprobsFields,
  formatField,
  getChatPrompt,
  messageFields,
  samplingFields,
  stopField,
  toolChoiceField,
  toolsField,
  type WireRequest,
} from "../../inference/wire/request-fields.ts";

/** The name of the JSON schema in a request. OpenAI and some other providers refuse a schema without a name. */
const SCHEMA_NAME = "answer";

/**
 * Builds a request in the form that providers accept; undefined members are omitted from the JSON. Members are set only
 * if the client asked for them, because many providers refuse unknown ones: no `n` of 1, no tool choice of `auto`. If
 * the client sets no token limit, none is sent. The default of 1,024 tokens for local models would cut off models that
 * reason before they answer.
 *
 * Throws AssistantError `invalid_request`, and `unsupported_parameter` for a prompt of token ids, which have a meaning
 * for one local model only.
 */
export function buildGenerateBody(request: GenerateRequest, model: string): WireRequest {
  const chat = getChatPrompt(request);
  const common = {
    model,
    n: request.n === 1 ? undefined : request.n,
    stream: true,
    stream_options: { include_usage: true },
    ...samplingFields(request),
    // The penalty is sent under both of its names, because most providers know only `repetition_penalty`.
    repetition_penalty: request.sampling.repeatPenalty,
    max_tokens: request.maxTokens === Number.POSITIVE_INFINITY ? undefined : request.maxTokens,
    stop: stopField(request),
    response_format: formatField(withSchemaName(request.guide)),
  };
  if (chat) {
    const body = { ...common, ...chatFields(request, chat) };
    return { path: "/chat/completions", body: withPassthrough(body, request.passthrough) };
  }
  const texts = request.prompts.map((prompt) => getPromptText(prompt));
  const prompt = texts.length === 1 ? texts[0] : texts;
  const body = { ...common, prompt, logprobs: request.sampling.logprobs };
  return { path: "/completions", body: withPassthrough(body, request.passthrough) };
}

export function buildEmbedBody(request: EmbedRequest, model: string): WireRequest {
  const body = { model, input: request.texts, encoding_format: "float" };
  return { path: "/embeddings", body: withPassthrough(body, request.passthrough) };
}

function chatFields(request: GenerateRequest, chat: ChatPrompt) {
  const { reasoning_effort: effort, ...variables } = chat.variables;
  const tools = toolsField(chat.tools);
  const isAuto = request.toolChoice.kind === "auto";
  return {
    messages: chat.messages.map((message) => formatMessage(message)),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...(Object.keys(variables).length === 0 ? {} : { chat_template_kwargs: variables }),
    tools,
    tool_choice: tools && !isAuto ? toolChoiceField(request.toolChoice) : undefined,
    parallel_tool_calls: tools && !request.parallelToolCalls ? false : undefined,
    ...chatLogprobsFields(request),
  };
}

/**
 * Converts a message. The content of a message with only tool calls is null, because some providers refuse an empty
 * text.
 */
function formatMessage(message: ChatMessage) {
  const isCalls = message.content === "" && (message.toolCalls?.length ?? 0) > 0;
  return { ...messageFields(message), ...(isCalls ? { content: null } : {}) };
}

function withSchemaName(guide: GenerateRequest["guide"]): GenerateRequest["guide"] {
  return guide.kind === "json_schema" ? { ...guide, name: guide.name ?? SCHEMA_NAME } : guide;
}

function getPromptText(prompt: Prompt): string {
  if (prompt.kind === "text") return prompt.text;
  throw new AssistantError(
    "unsupported_parameter",
    "only a local model can read a prompt of token ids: send text to a provider",
    { param: "prompts" },
  );
}

/** Body members that pass-through parameters must not set, in addition to those that the request sets. */
const reservedNames: ReadonlySet<string> = new Set([
  "max_completion_tokens",
  "keep_alive",
  "__proto__",
]);

function withPassthrough(
  body: Readonly<Record<string, unknown>>,
  passthrough: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> {
  const added = Object.entries(passthrough).filter(
    ([name]) => !Object.hasOwn(body, name) && !reservedNames.has(name) && !name.startsWith("svc_"),
  );
  return { ...body, ...Object.fromEntries(added) };
}
