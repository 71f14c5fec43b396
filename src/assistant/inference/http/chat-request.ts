import { Type } from "typebox";
import type { GenerateRequest } from "../service-port.ts";
import { messagesOf } from "./chat-messages.ts";
import { TOOLS_MAX, toolChoiceOf, toolsOf } from "./chat-tools.ts";
import { checked, refused } from "./checked.ts";
import {
  generationFields,
  generationOf,
  type StreamWish,
  schemaParamOf,
  streamWishOf,
} from "./generation-parameters.ts";
import { objectOf } from "./json-body.ts";
import { type StrayParameters, strayParameters, unsupported } from "./parameters.ts";

/** Far more than fit any context. */
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
const chatBody = checked(Type.Object(fields));

export interface ChatRequest extends StrayParameters {
  readonly generate: GenerateRequest;
  readonly stream: StreamWish;
  /** Whether the answer tells logprobs. */
  readonly logprobs: boolean;
  /** Where the schema stands, if there is one. */
  readonly schemaParam: string;
}

/** Throws AssistantError `invalid_request` or `unsupported_parameter`, both with `param`. */
export function chatRequestOf(body: unknown): ChatRequest {
  const raw = objectOf(body);
  const stray = strayParameters(raw, chatParameters, "chat");
  const unknown = new Set(stray.unknown);
  const given = chatBody(raw, "");
  if (given.modalities?.some((modality) => modality !== "text")) {
    throw unsupported("modalities", "models answer with text only");
  }
  if (given.top_logprobs !== undefined && given.logprobs !== true) {
    throw refused("top_logprobs", "needs logprobs: true");
  }
  const stream = streamWishOf(given, unknown);
  const tools = toolsOf(given.tools ?? []);
  const logprobs = given.logprobs ?? false;
  return {
    generate: {
      ...generationOf(given, logprobs ? (given.top_logprobs ?? 0) : undefined),
      isStreamed: stream.isPassedOn,
      prompts: [
        {
          kind: "chat",
          messages: messagesOf(given.messages, unknown),
          tools,
          variables: variablesOf(given),
        },
      ],
      toolChoice: toolChoiceOf(given.tool_choice, tools),
      parallelToolCalls: given.parallel_tool_calls ?? true,
    },
    stream,
    logprobs,
    schemaParam: schemaParamOf(given),
    unknown: [...unknown],
    further: stray.further,
  };
}

/** What every template is given anyway, from elsewhere. */
const reservedVariables: ReadonlySet<string> = new Set([
  "messages",
  "tools",
  "add_generation_prompt",
  "bos_token",
  "eos_token",
]);

function variablesOf(given: {
  readonly chat_template_kwargs?: Readonly<Record<string, unknown>>;
  readonly enable_thinking?: boolean;
  readonly reasoning_effort?: string;
}): Readonly<Record<string, unknown>> {
  const variables = given.chat_template_kwargs ?? {};
  for (const name of Object.keys(variables)) {
    if (reservedVariables.has(name)) {
      throw refused(`chat_template_kwargs.${name}`, "is given to the template by the request");
    }
  }
  return {
    ...variables,
    ...(given.enable_thinking === undefined ? {} : { enable_thinking: given.enable_thinking }),
    ...(given.reasoning_effort === undefined ? {} : { reasoning_effort: given.reasoning_effort }),
  };
}
