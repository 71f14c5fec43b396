import { isObject, tryParseJson } from "../../../base/json.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { LoadedModel } from "../inference-engine.ts";
import type { ToolCall } from "../runner.ts";
import { type AnswerEvent, DEFAULT_TOKENS_MAX, type GenerateRequest } from "../service-port.ts";
import type { AnswerPlan } from "./answer-plan.ts";
import { completeSampling } from "./sampling-params.ts";

/** The number of attempts for an answer with a schema. The API documents that Berth tries a second time. */
const ATTEMPTS = 2;

interface ChoiceOptions {
  readonly request: GenerateRequest;
  readonly plan: AnswerPlan;
  readonly model: LoadedModel;
  /** The index among the choices of all prompts. Each prompt has `n` consecutive choices. */
  readonly choice: number;
  readonly random: () => number;
  readonly signal: AbortSignal;
}

/**
 * Yields the events of one choice. If the request has a schema and is not streamed, the events are held back until the
 * answer has proved valid, after a second attempt if necessary; a streamed answer that is not valid ends with
 * `invalid_output`.
 */
export function generateChoice(options: ChoiceOptions): AsyncIterable<AnswerEvent> {
  const { check } = options.plan;
  return check ? generateChecked(options, check) : runAttempt(options, 0, () => {});
}

async function* generateChecked(
  options: ChoiceOptions,
  check: NonNullable<AnswerPlan["check"]>,
): AsyncGenerator<AnswerEvent, void, void> {
  const { request } = options;
  for (let tried = 0; tried < ATTEMPTS; tried++) {
    const held: AnswerEvent[] = [];
    let content = "";
    let calls: readonly ToolCall[] = [];
    const keepCalls = (made: readonly ToolCall[]) => {
      calls = made;
    };
    for await (const event of runAttempt(options, tried, keepCalls)) {
      if (event.type === "text") content += event.text;
      if (event.type === "end") {
        const problem = event.reason === "length" ? undefined : await check(content, calls);
        if (problem !== undefined) {
          if (request.isStreamed || tried + 1 === ATTEMPTS) throw invalidOutputError(problem);
          break;
        }
        yield* event.reason === "length" ? withoutCutCall(held, calls) : held;
        yield event;
        return;
      }
      // The event `started` describes the prompt, which a second attempt does not change. The first attempt yields it
      // at once, and a second attempt omits it.
      if (event.type === "started") {
        if (tried === 0) yield event;
      } else if (request.isStreamed) yield event;
      else held.push(event);
    }
  }
}

/**
 * Removes the last tool call if the token limit has cut its arguments off. A client of a streamed answer has received
 * them already; other clients would fail to parse them.
 */
function withoutCutCall(
  events: readonly AnswerEvent[],
  calls: readonly ToolCall[],
): readonly AnswerEvent[] {
  const last = calls.at(-1);
  if (last === undefined || isObject(tryParseJson(last.arguments))) return events;
  return events.filter((event) => event.type !== "tool_call" || event.index < calls.length - 1);
}

function invalidOutputError(problem: string): AssistantError {
  return new AssistantError(
    "invalid_output",
    `the model's answer does not fit the schema: ${problem}. Ask again, or use a larger model`,
  );
}

/** Generates one answer with the model. Each attempt parses the generated text with a new parser. */
async function* runAttempt(
  { request, plan, model, choice, random, signal }: ChoiceOptions,
  tried: number,
  onCalls: (calls: readonly ToolCall[]) => void,
): AsyncGenerator<AnswerEvent, void, void> {
  const prompt = Math.floor(choice / request.n);
  const reader = plan.reader();
  const events = model.generate(
    {
      prompt: plan.prompts[prompt] ?? request.prompts[prompt] ?? { kind: "text", text: "" },
      priority: request.priority,
      sampling: completeSampling(request.sampling, {
        choice: choice % request.n,
        attempt: tried,
        grammar: plan.grammar,
        showControlTokens: plan.showControlTokens,
        random,
      }),
      maxTokens: getMaxTokens(request),
      stop: plan.stop,
    },
    signal,
  );
  for await (const event of events) {
    if (event.type === "started") {
      if (choice % request.n === 0)
        yield {
          type: "started",
          prompt,
          promptTokens: event.promptTokens,
          cachedTokens: event.cachedTokens,
        };
    } else if (event.type === "text") {
      for (const delta of reader.push(event.text, event.logprobs)) yield { ...delta, choice };
    } else {
      const { deltas, calledTools, reasoningTokens, calls } = reader.end(event.reason === "length");
      onCalls(calls);
      for (const delta of deltas) yield { ...delta, choice };
      yield {
        type: "end",
        choice,
        reason: calledTools && event.reason === "stop" ? "tool_calls" : event.reason,
        completionTokens: event.completionTokens,
        reasoningTokens,
      };
    }
  }
}

function getMaxTokens(request: GenerateRequest): number | undefined {
  return request.maxTokens === Number.POSITIVE_INFINITY
    ? undefined
    : (request.maxTokens ?? DEFAULT_TOKENS_MAX);
}
