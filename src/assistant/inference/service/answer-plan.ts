import { newCallId } from "../../../base/openai-wire/tool-call-reader.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { ModelFacts } from "../inference-engine.ts";
import { type AnswerStreamParser, type PromptPlan, planPrompt } from "../prompts/plan-prompt.ts";
import { documentRuleName, parseToolIndex } from "../prompts/tools/tool-grammar.ts";
import type { Prompt, ToolCall } from "../runner.ts";
import type { GrammarLayout, GrammarText } from "../schema-grammar/compile-schema.ts";
import type { GenerateRequest, Guide } from "../service-port.ts";

/** The prompts for one request, and how the model's text is parsed and checked. */
export interface AnswerPlan {
  readonly prompts: readonly Prompt[];
  readonly grammar: GrammarText | undefined;
  readonly stop: readonly string[];
  readonly showControlTokens: boolean;
  /**
   * Resolves to the problem of a finished answer, or to undefined if the answer is valid. A plan without anything to
   * check does not have this function.
   */
  readonly check?:
    | ((content: string, calls: readonly ToolCall[]) => Promise<string | undefined>)
    | undefined;
  /** Creates a parser for the model's text; each choice needs its own. */
  reader(): AnswerStreamParser;
}

/** Compiles schemas into grammars, and validates documents against schemas. */
export interface SchemaCompiler {
  /** Compiles a layout and its schemas to one grammar. Rejects with `unsupported_schema` if that is not possible. */
  compileLayout(layout: GrammarLayout, signal: AbortSignal): Promise<GrammarText>;
  /** Returns the problems of a document, one line each; empty if it is valid. Never rejects. */
  validate(schema: unknown, document: unknown): Promise<readonly string[]>;
}

export class AnswerPlanner {
  readonly #schemas: SchemaCompiler;

  constructor(options: { readonly schemas: SchemaCompiler }) {
    this.#schemas = options.schemas;
  }

  /**
   * Builds the prompts and the grammar for a request. Rejects with `invalid_request`, `unsupported_schema` or
   * `model_unusable`; the error's `param` names the field at fault.
   */
  async plan(
    request: GenerateRequest,
    facts: ModelFacts,
    signal: AbortSignal,
  ): Promise<AnswerPlan> {
    const document = getGuideDocument(request.guide);
    const plans = request.prompts.map((prompt) =>
      planPrompt(
        {
          prompt,
          document,
          toolChoice: request.toolChoice,
          parallelToolCalls: request.parallelToolCalls,
        },
        facts.chatTemplate,
        newCallId,
      ),
    );
    // A request with several prompts contains only plain texts. Their plans differ only in the prompt, so the first
    // plan applies to all prompts.
    const [plan] = plans;
    if (!plan) throw new AssistantError("invalid_request", "the request has no prompt");
    const isJudged = document !== undefined || plan.argumentSchemas.size > 0;
    return {
      prompts: plans.map(({ prompt }) => prompt),
      grammar: plan.layout && (await this.#compileGrammar(plan, plan.layout, signal)),
      stop: request.stop,
      showControlTokens: plan.showControlTokens,
      check: isJudged
        ? (content, calls) => this.#checkAnswer(plan, document, content, calls)
        : undefined,
      reader: () => plan.createParser(),
    };
  }

  async #compileGrammar(
    plan: PromptPlan,
    layout: GrammarLayout,
    signal: AbortSignal,
  ): Promise<GrammarText> {
    try {
      return await this.#schemas.compileLayout(layout, signal);
    } catch (error) {
      if (!(error instanceof AssistantError) || error.code !== "unsupported_schema") throw error;
      const tool = parseToolIndex(error.param);
      const isOfDocument = error.param === documentRuleName || plan.argumentSchemas.size === 0;
      const [param, where] =
        tool === undefined
          ? [isOfDocument ? "guide.schema" : "tools", ""]
          : [`tools[${tool}].parameters`, `tools[${tool}].function.parameters: `];
      throw new AssistantError(error.code, `${where}${error.message}`, { param, cause: error });
    }
  }

  async #checkAnswer(
    plan: PromptPlan,
    document: { readonly schema: unknown } | undefined,
    content: string,
    calls: readonly ToolCall[],
  ): Promise<string | undefined> {
    for (const { name, arguments: text } of calls) {
      const problem = await this.#findProblem(plan.argumentSchemas.get(name), text);
      if (problem !== undefined) return `the arguments of ${name}: ${problem}`;
    }
    return document && calls.length === 0 ? this.#findProblem(document.schema, content) : undefined;
  }

  async #findProblem(schema: unknown, text: string): Promise<string | undefined> {
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch {
      return "the answer is not JSON";
    }
    return (await this.#schemas.validate(schema, document))[0];
  }
}

function getGuideDocument(guide: Guide): { readonly schema: unknown } | undefined {
  if (guide.kind === "none") return undefined;
  return { schema: guide.kind === "json_object" ? { type: "object" } : guide.schema };
}
