import { AssistantError } from "../../assistant-error.ts";
import type { Prompt, TokenLogprob, ToolDefinition } from "../runner.ts";
import type { GrammarLayout } from "../schema-grammar/compile-schema.ts";
import type { ToolChoice } from "../service-port.ts";
import { type AnswerDelta, type AnswerEnd, AnswerParser } from "./answer-parser.ts";
import type { ChatPrompt } from "./chat-template.ts";
import { detectThinking } from "./detect-thinking.ts";
import { compileTemplate, withTemplateErrors } from "./explain-template-errors.ts";
import type { TemplateCapabilities } from "./template-capabilities.ts";
import { hermesFormat, matchToolFormat, type ToolFormat } from "./tools/tool-format.ts";
import { buildAnswerLayout, type CallableTool } from "./tools/tool-grammar.ts";
import { renderToolsAsText } from "./tools/tool-messages.ts";
import {
  renderUntemplatedConversation,
  untemplatedConversationStops,
} from "./untemplated-conversation.ts";

export interface PlanRequest {
  readonly prompt: Prompt;
  readonly toolChoice: ToolChoice;
  readonly parallelToolCalls: boolean;
  /** The schema that an answer in text has to meet; undefined: any text. */
  readonly document: { readonly schema: unknown } | undefined;
}

/** How a request is put to a model, and how its answer is read. */
export interface PromptPlan {
  readonly prompt: Prompt;
  /** What ends the answer, beside what the client said. */
  readonly stops: readonly string[];
  /**
   * What the answer has to follow; undefined: nothing. Its shortest text is "" where a plain answer is
   * possible, which an engine that does not sample should take for no grammar at all.
   */
  readonly layout: GrammarLayout | undefined;
  /** Whether markers that the reader looks for are control tokens of such models. */
  readonly showControlTokens: boolean;
  /** The schemas of the arguments of tools that may be called, by name; see `AnswerEnd.calls`. */
  readonly argumentSchemas: ReadonlyMap<string, unknown>;
  /** One for each answer. */
  createParser(): AnswerStreamParser;
}

export interface AnswerStreamParser {
  push(text: string, logprobs: readonly TokenLogprob[] | undefined): readonly AnswerDelta[];
  end(): AnswerEnd;
}

/**
 * Plans one prompt for a model with this chat template; `newId` names calls. Throws AssistantError
 * `invalid_request` where tools cannot be called as asked, with `param` (`tools[1].parameters`,
 * `toolChoice`), and `model_unusable` where the template cannot be used.
 */
export function planPrompt(
  request: PlanRequest,
  template: string | undefined,
  newId: () => string,
): PromptPlan {
  const { prompt } = request;
  if (prompt.kind !== "chat") return planPlainPrompt(prompt, request);
  const callable = selectCallableTools(prompt.tools, request.toolChoice);
  const compiled = template === undefined ? undefined : compileTemplate(template);
  const capabilities = compiled && withTemplateErrors(() => compiled.capabilities);
  const format = capabilities && detectToolFormat(capabilities);
  const thinking = compiled && withTemplateErrors(() => detectThinking(compiled, prompt.variables));
  const layout = buildAnswerLayout({
    format: format ?? hermesFormat,
    tools: callable,
    isCallOptional: request.toolChoice.kind === "auto",
    allowsSeveralCalls: request.parallelToolCalls,
    document: request.document,
    thinking,
  });
  const names = new Set(callable.map(({ name }) => name));
  const calls = callable.length > 0 ? { format: format ?? hermesFormat, names, newId } : undefined;
  const adapted = adaptPromptToTemplate(prompt, format, capabilities, request.toolChoice);
  return {
    prompt: template === undefined ? renderUntemplatedConversation(adapted.messages) : adapted,
    stops: template === undefined ? untemplatedConversationStops : [],
    layout,
    showControlTokens:
      thinking?.open.startsWith("[") === true || calls?.format.marker?.startsWith("[") === true,
    argumentSchemas: new Map(callable.map(({ name, schema }) => [name, schema])),
    createParser: () => new AnswerParser({ thinking, calls }),
  };
}

/** Undefined: the template says no tools, or calls in no way that is known here. */
function detectToolFormat({
  rendersTools: tools,
  rendersToolCalls: toolCalls,
  renderedCall: saidCall,
}: TemplateCapabilities): ToolFormat | undefined {
  return tools && toolCalls && saidCall !== undefined ? matchToolFormat(saidCall) : undefined;
}

function planPlainPrompt(prompt: Prompt, { document }: PlanRequest): PromptPlan {
  return {
    prompt,
    stops: [],
    layout: buildAnswerLayout({
      format: hermesFormat,
      tools: [],
      isCallOptional: true,
      allowsSeveralCalls: false,
      document,
      thinking: undefined,
    }),
    showControlTokens: false,
    argumentSchemas: new Map(),
    createParser: () => new AnswerParser({ thinking: undefined, calls: undefined }),
  };
}

/** Tools that are not to be called are not shown: models call what they see. */
function adaptPromptToTemplate(
  prompt: ChatPrompt,
  format: ToolFormat | undefined,
  capabilities: TemplateCapabilities | undefined,
  toolChoice: ToolChoice,
): ChatPrompt {
  const tools = toolChoice.kind === "none" ? [] : prompt.tools;
  if (format !== undefined) return { ...prompt, tools };
  const hasCalls = prompt.messages.some(
    ({ role, toolCalls }) => role === "tool" || toolCalls?.length,
  );
  if (tools.length === 0 && (!hasCalls || capabilities?.rendersToolCalls === true))
    return { ...prompt, tools };
  return { ...prompt, tools: [], messages: renderToolsAsText(prompt.messages, tools) };
}

function selectCallableTools(
  tools: readonly ToolDefinition[],
  choice: ToolChoice,
): readonly CallableTool[] {
  if (choice.kind === "none") return [];
  const callable = tools.map(({ name, parameters }, index) => ({
    name,
    index,
    schema: toArgumentSchema(parameters, index),
  }));
  if (choice.kind === "function") {
    const named = callable.filter(({ name }) => name === choice.name);
    if (named.length > 0) return named;
    throw invalidRequest(`there is no tool "${choice.name}" to call`, "toolChoice");
  }
  if (choice.kind === "required" && callable.length === 0) {
    throw invalidRequest("a call of a tool is required, and there are no tools", "toolChoice");
  }
  return callable;
}

/** Arguments are always an object, whether the schema says so or not. */
function toArgumentSchema(parameters: unknown, index: number): unknown {
  if (parameters === undefined || parameters === null) return noArgumentsSchema;
  if (typeof parameters === "object" && !Array.isArray(parameters)) {
    const type: unknown = "type" in parameters ? parameters.type : undefined;
    if (type === undefined) {
      return Object.keys(parameters).length === 0
        ? { type: "object" }
        : { type: "object", ...parameters };
    }
    if (type === "object") return parameters;
  }
  throw invalidRequest(
    "the parameters of a tool are a JSON Schema of an object",
    `tools[${index}].parameters`,
  );
}

function invalidRequest(message: string, param: string): AssistantError {
  return new AssistantError("invalid_request", message, { param });
}

const noArgumentsSchema = { type: "object", properties: {}, additionalProperties: false };
