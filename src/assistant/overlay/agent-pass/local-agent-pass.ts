import { randomBytes } from "node:crypto";
import { canonicalJson } from "../../../base/canonical-json.ts";
import type { Logger } from "../../../base/logger.ts";
import { TaskGroup } from "../../../base/task-group.ts";
import type { AgentService, CallDetail } from "../../agent/port.ts";
import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";
import type { InferenceService } from "../../inference/service-port.ts";
import type { TurnCall } from "../port.ts";
import type { PastStep } from "./choice-prompt.ts";
import type { AgentPass, PassOutcome, PassResult, PassTurn } from "./port.ts";
import { ProvenanceChain } from "./provenance-chain.ts";
import { formatResult } from "./result-text.ts";
import { ToolCallRunner } from "./tool-call-runner.ts";
import { findCandidates, type ToolDeclarations } from "./tool-candidates.ts";
import { type Choice, ToolChooser } from "./tool-chooser.ts";

export interface PassLimits {
  /** The maximum number of steps per turn. Each step is one request to the model. */
  readonly steps: number;
  /** The model chooses no more tools in a turn after this number of failed calls or invalid choices in a row. */
  readonly failuresInARow: number;
  readonly tools: number;
  /** The maximum size of the result of one tool call, in bytes of UTF-8. */
  readonly resultBytes: number;
}

export const defaultPassLimits: PassLimits = {
  steps: 5,
  failuresInARow: 2,
  tools: 8,
  resultBytes: 16 * 1024,
};

export interface LocalAgentPassOptions {
  /** The inference service with local models only, because the prompts must not leave the machine. */
  readonly inference: InferenceService;
  readonly agent: AgentService;
  readonly declarations: ToolDeclarations;
  readonly logger: Logger;
  readonly limits?: Partial<PassLimits>;
}

/** Codes of errors that are caused by the lack of a usable local model, and not by the question. */
const unavailableModelCodes: ReadonlySet<AssistantErrorCode> = new Set([
  "no_model",
  "model_unusable",
  "model_unsuitable",
  "insufficient_memory",
  "unreachable",
  // `context_length_exceeded` means that even the smallest prompt does not fit the model's context.
  "context_length_exceeded",
]);

/** Codes of errors whose messages Berth writes itself; messages with other codes may contain text from an app. */
const agentAuthoredCodes: ReadonlySet<CallDetail["code"]> = new Set([
  "unknown_app",
  "unknown_tool",
  "bad_json",
  "invalid_args",
  "app_disabled",
  "tool_disabled",
  "rate_limited",
  "too_many_parked",
  "paused",
  "declined",
]);

/** The state of one turn's tool calls so far. */
interface PassProgress {
  readonly chain: ProvenanceChain;
  readonly past: PastStep[];
  readonly results: PassResult[];
  failuresInARow: number;
  /** The calls, with their arguments, that the user has declined. The user is not asked for them again. */
  readonly declined: Set<string>;
  /** The last requested call with its arguments. */
  lastCall: string | undefined;
}

/**
 * Lets a local model choose tools step by step. The model sees the user's request, the passages found for it and
 * the outcome of earlier calls, and answers with one call or none. Because it reads text from untrusted sources,
 * its choices are untrusted too, and nothing important depends on them: the agent decides about each call by tier,
 * provenance and the user's confirmation.
 */
export class LocalAgentPass implements AgentPass, AsyncDisposable {
  readonly #agent: AgentService;
  readonly #declarations: ToolDeclarations;
  readonly #logger: Logger;
  readonly #limits: PassLimits;
  readonly #chooser: ToolChooser;
  readonly #calls: ToolCallRunner;
  readonly #tasks: TaskGroup;

  constructor(options: LocalAgentPassOptions) {
    const { agent, inference, logger } = options;
    this.#agent = agent;
    this.#declarations = options.declarations;
    this.#logger = logger;
    this.#limits = { ...defaultPassLimits, ...options.limits };
    this.#chooser = new ToolChooser({ inference });
    this.#tasks = new TaskGroup((err, task) =>
      logger.warn({ err, task }, "withdrawing a call failed"),
    );
    this.#calls = new ToolCallRunner({ agent, tasks: this.#tasks, logger });
  }

  async run(turn: PassTurn, signal: AbortSignal): Promise<PassOutcome> {
    signal.throwIfAborted();
    const candidates = await findCandidates(
      turn.prompt,
      { agent: this.#agent, declarations: this.#declarations },
      { toolsMax: this.#limits.tools, signal },
    );
    const progress: PassProgress = {
      chain: new ProvenanceChain(turn.provenance),
      past: [],
      results: [],
      failuresInARow: 0,
      declined: new Set(),
      lastCall: undefined,
    };
    const question = {
      userPrompt: turn.prompt,
      context: turn.context,
      candidates,
      past: progress.past,
      boundary: randomBytes(12).toString("hex"),
    };
    for (let step = 0; step < this.#limits.steps && candidates.length > 0; step += 1) {
      if (!progress.chain.isWithinLimits) {
        this.#logger.warn(
          {},
          "the provenance chain of a turn is too long for a call, so the turn calls no tools",
        );
        break;
      }
      let choice: Choice;
      try {
        choice = await this.#chooser.choose(question, turn.model, signal);
      } catch (error) {
        if (!(error instanceof AssistantError) || !unavailableModelCodes.has(error.code))
          throw error;
        this.#logger.debug({ code: error.code }, "no local model is available to choose tools");
        return toPassOutcome(progress, progress.results.length > 0);
      }
      if (choice.kind === "none") break;
      const isDone =
        choice.kind === "call"
          ? await this.#call(choice, turn, progress, signal)
          : recordFailure(progress, { choice: undefined, outcome: `not done: ${choice.why}` });
      if (isDone || progress.failuresInARow >= this.#limits.failuresInARow) break;
    }
    return toPassOutcome(progress, true);
  }

  /** Waits until the calls that are being withdrawn have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
  }

  /** Runs one call that the model chose. Returns true if the model must not choose another call in this turn. */
  async #call(
    { candidate, args }: Choice & { readonly kind: "call" },
    turn: PassTurn,
    progress: PassProgress,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { appId, tool, name } = candidate;
    const call = `${name} ${canonicalJson(args)}`;
    // The model has chosen the same call with the same arguments again.
    if (call === progress.lastCall || progress.declined.has(call)) return true;
    progress.lastCall = call;
    const provenance = progress.chain.labels;
    const argsJson = JSON.stringify(args);
    const request = { appId, tool, argsJson, actor: "overlay", provenance };
    const { callId, status, detail } = await this.#calls.call(request, turn, signal);
    const text = formatResult(detail, this.#limits.resultBytes);
    const turnCall: TurnCall = { call_id: callId, app_id: appId, tool, status };
    progress.results.push({ call: turnCall, text });
    if (!agentAuthoredCodes.has(detail.code)) progress.chain.addApp(appId);
    if (detail.code === "declined") progress.declined.add(call);
    const past = { choice: JSON.stringify({ tool: name, args }), outcome: text };
    if (status !== "executed") return recordFailure(progress, past);
    progress.past.push(past);
    progress.failuresInARow = 0;
    return false;
  }
}

/** Adds the failure to the prompt, so that the model can correct itself when it chooses again. */
function recordFailure(progress: PassProgress, past: PastStep): false {
  progress.past.push(past);
  progress.failuresInARow += 1;
  return false;
}

function toPassOutcome({ results }: PassProgress, isAvailable: boolean): PassOutcome {
  return { isAvailable, calls: results.map(({ call }) => call), results };
}
