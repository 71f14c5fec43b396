import { Type } from "typebox";
import type { GenerateRequest } from "../service-port.ts";
import { createValidator, invalidParamError } from "./body-validator.ts";
import { parseMessages } from "./chat-messages.ts";
import { parseToolChoice, parseTools, TOOLS_MAX } from "./chat-tools.ts";
import {
  generationFields,
  getSchemaParam,
  parseGeneration,
  parseStreamOptions,
  type StreamOptions,
} from "./generation-parameters.ts";
import { parseObject } from "./json-body.ts";
import {
  findUnknownParameters,
  type UnknownParameters,
  unsupportedParamError,
} from "./unknown-parameters.ts";

/** The largest number of messages. It is far more than any context can hold. */
const MESSAGES_MAX = 10_000;

const fields = {
  ...generationFields,
  messages: Type.Array(Type.Unknown(), { minItems: 1, maxItems: MESSAGES_MAX }),
  logprobs: Type.Optional(Type.Boolean()),
  top_logprobs: Type.Optional(Type.Integer({ minimum: 0, maximum: 20 })),
  tools: Type.Optional(Type.Array(Type.Unknown(), { maxItems: TOOLS_MAX })),
  tool_choice: Type.Optional(Type.Unknown()),
  parallel_tool_calls: Type.Optional(Type.Boolean()),
  modalities: Type.Optional(Type.Array(Type.String(), { maxItems: 8 })),
  chat_template_kwargs: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), { maxProperties: 32 }),
  ),
  enable_thinking: Type.Optional(Type.Boolean()),
  reasoning_effort: Type.Optional(Type.String({ maxLength: 32 })),
} as const;

export const chatParameters: ReadonlySet<string> = new Set(Object.keys(fields));
const chatBody = createValidator(Type.Object(fields));

export interface ChatRequest extends UnknownParameters {
  readonly generate: GenerateRequest;
  readonly stream: StreamOptions;
  /** True if the client requested logprobs. */
  readonly logprobs: boolean;
  /** The position of the schema in the body, for error messages; undefined if there is no schema. */
  readonly schemaParam: string;
}

/**
 * Parses the body of a chat request. Throws AssistantError `invalid_request` or `unsupported_parameter`, both with
 * `param`.
 */
export function parseChatRequest(body: unknown): ChatRequest {
  const raw = parseObject(body);
  const ignored = findUnknownParameters(raw, chatParameters, "chat");
  const unknown = new Set(ignored.unknown);
  const given = chatBody(raw, "");
  if (given.modalities?.some((modality) => modality !== "text")) {
    throw unsupportedParamError("modalities", "models answer with text only");
  }
  if (given.top_logprobs !== undefined && given.logprobs !== true) {
    throw invalidParamError("top_logprobs", "needs logprobs: true");
  }
  const stream = parseStreamOptions(given, unknown);
  const tools = parseTools(given.tools ?? []);
  const logprobs = given.logprobs ?? false;
  return {
    generate: {
      ...parseGeneration(given, logprobs ? (given.top_logprobs ?? 0) : undefined),
      isStreamed: stream.isUnbuffered,
      prompts: [
        {
          kind: "chat",
          messages: parseMessages(given.messages, unknown),
          tools,
          variables: parseTemplateVariables(given),
        },
      ],
      toolChoice: parseToolChoice(given.tool_choice, tools),
      parallelToolCalls: given.parallel_tool_calls ?? true,
    },
    stream,
    logprobs,
    schemaParam: getSchemaParam(given),
    unknown: [...unknown],
    passthrough: ignored.passthrough,
  };
}

/** The template variables that Berth itself sets from the request. A client must not set them. */
const reservedVariables: ReadonlySet<string> = new Set([
  "messages",
  "tools",
  "add_generation_prompt",
  "bos_token",
  "eos_token",
]);

function parseTemplateVariables(given: {
  readonly chat_template_kwargs?: Readonly<Record<string, unknown>>;
  readonly enable_thinking?: boolean;
  readonly reasoning_effort?: string;
}): Readonly<Record<string, unknown>> {
  const variables = given.chat_template_kwargs ?? {};
  for (const name of Object.keys(variables)) {
    if (reservedVariables.has(name)) {
      throw invalidParamError(
        `chat_template_kwargs.${name}`,
        "is set by Berth from other parameters; leave it out",
      );
    }
  }
  return {
    ...variables,
    ...(given.enable_thinking === undefined ? {} : { enable_thinking: given.enable_thinking }),
    ...(given.reasoning_effort === undefined ? {} : { reasoning_effort: given.reasoning_effort }),
  };
}
