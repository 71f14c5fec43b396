import { isObject } from "../../../base/json.ts";
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

export interface PlanRequest {
  readonly prompt: Prompt;
  readonly toolChoice: ToolChoice;
  readonly parallelToolCalls: boolean;
  /** The schema for an answer without a tool call; undefined if any text is allowed. */
  readonly document: { readonly schema: unknown } | undefined;
}

/** The prompt of a request, the constraints of its answer, and the parser for the answer. */
export interface PromptPlan {
  readonly prompt: Prompt;
  /**
   * The grammar of the answer; undefined if any text is allowed. The grammar matches the empty text if a plain answer
   * is possible; an engine that does not sample should then ignore the grammar.
   */
  readonly layout: GrammarLayout | undefined;
  /**
   * True if the parser searches for markers, such as those of tool calls, that are control tokens of models with this
   * template. The text that the parser reads must then contain control tokens.
   */
  readonly showControlTokens: boolean;
  /** The argument schemas of the tools that may be called, by name; see `AnswerEnd.calls`. */
  readonly argumentSchemas: ReadonlyMap<string, unknown>;
  /** Creates the parser for one answer. */
  createParser(): AnswerStreamParser;
}

export interface AnswerStreamParser {
  push(text: string, logprobs: readonly TokenLogprob[] | undefined): readonly AnswerDelta[];
  /**
   * Returns the text that is still held back. If the token limit cut the answer off (`isCut`), the beginning of a
   * marker or of a tool call is dropped; otherwise it is text, because the model has chosen to end there.
   */
  end(isCut: boolean): AnswerEnd;
}

/**
 * Plans one prompt for a model with this chat template; `newId` creates ids of tool calls. Throws
 * AssistantError `invalid_request` with `param` (`tools[1].parameters`, `toolChoice`) if the tools cannot
 * be called as requested, and `model_unusable` if the template cannot be used.
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
    // A choice that names a function asks for one call of it, as in OpenAI's API.
    allowsSeveralCalls: request.parallelToolCalls && request.toolChoice.kind !== "function",
    document: request.document,
    thinking,
  });
  const names = new Set(callable.map(({ name }) => name));
  const calls = callable.length > 0 ? { format: format ?? hermesFormat, names, newId } : undefined;
  const adapted = adaptPromptToTemplate(prompt, format, capabilities, request.toolChoice);
  return {
    prompt: adapted,
    layout,
    showControlTokens:
      thinking?.open.startsWith("[") === true || calls?.format.marker?.startsWith("[") === true,
    argumentSchemas: new Map(callable.map(({ name, schema }) => [name, schema])),
    createParser: () => new AnswerParser({ thinking, calls }),
  };
}

/** Returns the format of tool calls; undefined if the template renders no tools, or if its format is unknown. */
function detectToolFormat({
  rendersTools,
  rendersToolCalls,
  renderedCall,
}: TemplateCapabilities): ToolFormat | undefined {
  if (!rendersTools || !rendersToolCalls || renderedCall === undefined) return undefined;
  return matchToolFormat(renderedCall);
}

function planPlainPrompt(prompt: Prompt, { document }: PlanRequest): PromptPlan {
  return {
    prompt,
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

/**
 * Leaves out the tools if no tool may be called, because models call the tools that they see. If the template cannot
 * render tool calls, describes tools and earlier calls as text in the messages.
 */
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
    throw invalidRequest("a tool call is required, but the request has no tools", "toolChoice");
  }
  return callable;
}

/** Adds the type `object` if the schema has none, because arguments are always an object. */
function toArgumentSchema(parameters: unknown, index: number): unknown {
  if (parameters === undefined || parameters === null) return noArgumentsSchema;
  if (isObject(parameters)) {
    const type = parameters["type"];
    if (type === undefined) {
      return Object.keys(parameters).length === 0
        ? { type: "object" }
        : { type: "object", ...parameters };
    }
    if (type === "object") return parameters;
  }
  throw invalidRequest(
    "the parameters of a tool must be a JSON Schema of type object",
    `tools[${index}].parameters`,
  );
}

function invalidRequest(message: string, param: string): AssistantError {
  return new AssistantError("invalid_request", message, { param });
}

const noArgumentsSchema = { type: "object", properties: {}, additionalProperties: false };
