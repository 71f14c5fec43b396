import { AssistantError } from "../../errors.ts";
import type { Prompt, TokenLogprob, ToolDefinition } from "../runner.ts";
import type { GrammarLayout } from "../schema-grammar/compile-schema.ts";
import type { ToolChoice } from "../service-port.ts";
import { type AnswerDelta, type AnswerEnd, AnswerTextReader } from "./answer-reader.ts";
import type { ChatPrompt } from "./chat-template.ts";
import { plainConversation, plainConversationStops } from "./plain-conversation.ts";
import { compiledTemplate, explained } from "./template-errors.ts";
import type { TemplateTraits } from "./template-traits.ts";
import { thinkingOf } from "./thinking.ts";
import { formatOf, hermes, type ToolFormat } from "./tools/tool-format.ts";
import { answerLayout, type CallableTool } from "./tools/tool-grammar.ts";
import { withToolsAsText } from "./tools/tool-messages.ts";

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
  reader(): PromptReader;
}

export interface PromptReader {
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
  if (prompt.kind !== "chat") return plainPlan(prompt, request);
  const callable = callableTools(prompt.tools, request.toolChoice);
  const compiled = template === undefined ? undefined : compiledTemplate(template);
  const traits = compiled && explained(() => compiled.traits);
  const format = traits && taughtFormat(traits);
  const thinking = compiled && explained(() => thinkingOf(compiled, prompt.variables));
  const layout = answerLayout({
    format: format ?? hermes,
    tools: callable,
    isCallOptional: request.toolChoice.kind === "auto",
    severalCalls: request.parallelToolCalls,
    document: request.document,
    thinking,
  });
  const names = new Set(callable.map(({ name }) => name));
  const calls = callable.length > 0 ? { format: format ?? hermes, names, newId } : undefined;
  const told = toldPrompt(prompt, format, traits, request.toolChoice);
  return {
    prompt: template === undefined ? plainConversation(told.messages) : told,
    stops: template === undefined ? plainConversationStops : [],
    layout,
    showControlTokens:
      thinking?.open.startsWith("[") === true || calls?.format.marker?.startsWith("[") === true,
    argumentSchemas: new Map(callable.map(({ name, schema }) => [name, schema])),
    reader: () => new AnswerTextReader({ thinking, calls }),
  };
}

/** Undefined: the template says no tools, or calls in no way that is known here. */
function taughtFormat({ tools, toolCalls, saidCall }: TemplateTraits): ToolFormat | undefined {
  return tools && toolCalls && saidCall !== undefined ? formatOf(saidCall) : undefined;
}

function plainPlan(prompt: Prompt, { document }: PlanRequest): PromptPlan {
  return {
    prompt,
    stops: [],
    layout: answerLayout({
      format: hermes,
      tools: [],
      isCallOptional: true,
      severalCalls: false,
      document,
      thinking: undefined,
    }),
    showControlTokens: false,
    argumentSchemas: new Map(),
    reader: () => new AnswerTextReader({ thinking: undefined, calls: undefined }),
  };
}

/** Tools that are not to be called are not shown: models call what they see. */
function toldPrompt(
  prompt: ChatPrompt,
  format: ToolFormat | undefined,
  traits: TemplateTraits | undefined,
  toolChoice: ToolChoice,
): ChatPrompt {
  const tools = toolChoice.kind === "none" ? [] : prompt.tools;
  if (format !== undefined) return { ...prompt, tools };
  const hasCalls = prompt.messages.some(
    ({ role, toolCalls }) => role === "tool" || toolCalls?.length,
  );
  if (tools.length === 0 && (!hasCalls || traits?.toolCalls === true)) return { ...prompt, tools };
  return { ...prompt, tools: [], messages: withToolsAsText(prompt.messages, tools) };
}

function callableTools(
  tools: readonly ToolDefinition[],
  choice: ToolChoice,
): readonly CallableTool[] {
  if (choice.kind === "none") return [];
  const callable = tools.map(({ name, parameters }, index) => ({
    name,
    index,
    schema: argumentSchema(parameters, index),
  }));
  if (choice.kind === "function") {
    const named = callable.filter(({ name }) => name === choice.name);
    if (named.length > 0) return named;
    throw refused(`there is no tool "${choice.name}" to call`, "toolChoice");
  }
  if (choice.kind === "required" && callable.length === 0) {
    throw refused("a call of a tool is required, and there are no tools", "toolChoice");
  }
  return callable;
}

/** Arguments are always an object, whether the schema says so or not. */
function argumentSchema(parameters: unknown, index: number): unknown {
  if (parameters === undefined || parameters === null) return noArguments;
  if (typeof parameters === "object" && !Array.isArray(parameters)) {
    const type: unknown = "type" in parameters ? parameters.type : undefined;
    if (type === undefined) {
      return Object.keys(parameters).length === 0
        ? { type: "object" }
        : { type: "object", ...parameters };
    }
    if (type === "object") return parameters;
  }
  throw refused(
    "the parameters of a tool are a JSON Schema of an object",
    `tools[${index}].parameters`,
  );
}

function refused(message: string, param: string): AssistantError {
  return new AssistantError("invalid_request", message, { param });
}

const noArguments = { type: "object", properties: {}, additionalProperties: false };
