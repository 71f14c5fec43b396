import { isObject, tryParseJson } from "../../../base/json.ts";
import type { JsonObject } from "../../agent/port.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { GenerateRequest, InferenceService } from "../../inference/service-port.ts";
import { buildChoiceGuide, NO_TOOL } from "./choice-guide.ts";
import {
  buildChoiceMessages,
  type ChoicePrompt,
  type PromptSizes,
  promptSizes,
} from "./choice-prompt.ts";
import { EnforceableSchemas } from "./enforceable-schemas.ts";
import type { ToolCandidate } from "./tool-candidates.ts";

/** Token limit for a choice, whose arguments may include a long text. */
const CHOICE_TOKENS_MAX = 1_024;

export type Choice =
  | { readonly kind: "none" }
  | { readonly kind: "call"; readonly candidate: ToolCandidate; readonly args: JsonObject }
  /** The model's output is not a valid choice; `why` is shown to the model. */
  | { readonly kind: "unreadable"; readonly why: string };

/** Lets a local model choose the next tool call. */
export class ToolChooser {
  readonly #inference: InferenceService;
  readonly #schemas = new EnforceableSchemas();

  constructor(options: { readonly inference: InferenceService }) {
    this.#inference = options.inference;
  }

  /**
   * Asks the model for the next tool call. A chosen tool is always one of the prompt's candidates. If the prompt is too
   * long for the model, the prompt is shortened. Rejects like `InferenceService.generate`, and with the signal's
   * reason.
   */
  async choose(
    prompt: ChoicePrompt,
    model: string | undefined,
    signal: AbortSignal,
  ): Promise<Choice> {
    for (const [index, sizes] of promptSizes.entries()) {
      try {
        return await this.#choose(prompt, sizes, model, signal);
      } catch (error) {
        if (index + 1 === promptSizes.length || !isTooLong(error)) throw error;
      }
    }
    throw new Error("the loop over the prompt sizes ended without an answer or an error");
  }

  async #choose(
    prompt: ChoicePrompt,
    sizes: PromptSizes,
    model: string | undefined,
    signal: AbortSignal,
  ): Promise<Choice> {
    const candidates = prompt.candidates.slice(0, sizes.tools);
    const messages = buildChoiceMessages({ ...prompt, candidates }, sizes);
    return await this.#schemas.ask(candidates, async (enforced) => {
      const request: GenerateRequest = {
        model,
        prompts: [{ kind: "chat", messages, tools: [], variables: {} }],
        n: 1,
        sampling: { temperature: 0 },
        maxTokens: CHOICE_TOKENS_MAX,
        stop: [],
        priority: "interactive",
        guide: buildChoiceGuide(candidates, enforced),
        toolChoice: { kind: "none" },
        parallelToolCalls: false,
        isStreamed: false,
        keepAliveMs: undefined,
      };
      return await this.#generateChoice(request, candidates, signal);
    });
  }

  async #generateChoice(
    request: GenerateRequest,
    candidates: readonly ToolCandidate[],
    signal: AbortSignal,
  ): Promise<Choice> {
    let text = "";
    let isCut = false;
    try {
      for await (const event of this.#inference.generate(request, signal)) {
        if (event.type === "text") text += event.text;
        if (event.type === "end") isCut = event.reason === "length";
      }
    } catch (error) {
      if (!(error instanceof AssistantError) || error.code !== "invalid_output") throw error;
      return {
        kind: "unreadable",
        why: "the answer is not one of the JSON objects that the model was asked for",
      };
    }
    // After an abort the event stream ends without an error, so the signal must be checked.
    signal.throwIfAborted();
    if (isCut) return { kind: "unreadable", why: "the answer was too long; use shorter arguments" };
    return readChoice(text, candidates);
  }
}

/** Parses and validates the model's answer, because an engine may enforce only a part of the answer's schema. */
function readChoice(text: string, candidates: readonly ToolCandidate[]): Choice {
  const answer = tryParseJson(text);
  const [tool, args] = isObject(answer) ? [answer["tool"], answer["args"]] : [];
  if (tool === NO_TOOL) return { kind: "none" };
  const candidate = candidates.find(({ name }) => name === tool);
  if (!candidate) return { kind: "unreadable", why: "the answer names none of the tools" };
  if (!isObject(args)) return { kind: "unreadable", why: "args was no object" };
  return { kind: "call", candidate, args };
}

function isTooLong(error: unknown): boolean {
  return error instanceof AssistantError && error.code === "context_length_exceeded";
}
