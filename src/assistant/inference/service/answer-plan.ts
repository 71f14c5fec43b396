import { AssistantError } from "../../errors.ts";
import type { ModelFacts } from "../engine.ts";
import type { Prompt, TokenLogprob } from "../runner.ts";
import type { AnswerEvent, GenerateRequest, Guide } from "../service-port.ts";

/** How one request is put to a model, and how what it writes is read. */
export interface AnswerPlan {
  readonly prompts: readonly Prompt[];
  readonly grammar: { readonly gbnf: string; readonly example: string } | undefined;
  readonly showControlTokens: boolean;
  /** What is wrong with a finished answer; undefined where nothing is. Absent: nothing is to be checked. */
  readonly check?: ((content: string) => Promise<string | undefined>) | undefined;
  /** One for each choice. */
  reader(): AnswerReader;
}

/** Takes the model's text apart into what clients see. */
export interface AnswerReader {
  push(text: string, logprobs: readonly TokenLogprob[] | undefined): readonly Delta[];
  end(): {
    readonly deltas: readonly Delta[];
    readonly calledTools: boolean;
    readonly reasoningTokens: number | undefined;
  };
}

type DeltaOf<Event> = Event extends { readonly choice: number } ? Omit<Event, "choice"> : never;
export type Delta = DeltaOf<Extract<AnswerEvent, { type: "text" | "reasoning" | "tool_call" }>>;

/** A schema as a grammar, and the judge of what came of it. */
export interface SchemaCompiler {
  /** Rejects with `unsupported_schema`. */
  compile(schema: unknown, signal: AbortSignal): Promise<CompiledSchema>;
  /** Of any JSON object. */
  jsonObject(): CompiledSchema;
}

export interface CompiledSchema {
  readonly gbnf: string;
  /** A shortest document of the grammar. */
  readonly example: string;
  /** What is wrong with a document, one line each; empty where it is valid. */
  validate(document: unknown): Promise<readonly string[]>;
}

export class AnswerPlanner {
  readonly #schemas: SchemaCompiler;

  constructor(options: { readonly schemas: SchemaCompiler }) {
    this.#schemas = options.schemas;
  }

  async plan(
    request: GenerateRequest,
    _facts: ModelFacts,
    signal: AbortSignal,
  ): Promise<AnswerPlan> {
    const guided = await this.#guided(request.guide, signal);
    return {
      prompts: request.prompts,
      grammar: guided,
      showControlTokens: false,
      check: guided && ((content) => problemOf(content, guided)),
      reader: plainReader,
    };
  }

  async #guided(guide: Guide, signal: AbortSignal): Promise<CompiledSchema | undefined> {
    if (guide.kind === "none") return undefined;
    if (guide.kind === "json_object") return this.#schemas.jsonObject();
    try {
      return await this.#schemas.compile(guide.schema, signal);
    } catch (error) {
      if (!(error instanceof AssistantError) || error.param !== undefined) throw error;
      throw new AssistantError(error.code, error.message, { param: "guide.schema", cause: error });
    }
  }
}

async function problemOf(content: string, schema: CompiledSchema): Promise<string | undefined> {
  let document: unknown;
  try {
    document = JSON.parse(content);
  } catch {
    return "it is not JSON";
  }
  return (await schema.validate(document))[0];
}

function plainReader(): AnswerReader {
  return {
    push: (text, logprobs) => [{ type: "text", text, logprobs }],
    end: () => ({ deltas: [], calledTools: false, reasoningTokens: undefined }),
  };
}
