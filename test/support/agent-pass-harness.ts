import { onTestFinished } from "vitest";
import type { AgentOptions } from "../../src/assistant/agent/calls/agent.ts";
import type { ConfirmationSpec } from "../../src/assistant/agent/port.ts";
import type { Caller } from "../../src/assistant/caller.ts";
import { LocalAgentPass } from "../../src/assistant/overlay/agent-pass/local-agent-pass.ts";
import type { PassOutcome, PassTurn } from "../../src/assistant/overlay/agent-pass/port.ts";
import { DeniedError } from "../../src/assistant/overlay/denied-error.ts";
import type { TurnCall } from "../../src/assistant/overlay/port.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { AgentHarness, NOTES, userCaller } from "./agent-harness.ts";
import { ScriptedService, says, textOfPrompt } from "./scripted-service.ts";

/** An answer of the model: a tool of the notes app with its arguments, `none`, or any text. */
export type ModelAnswer = readonly [tool: string, args: object] | { readonly text: string };

export const noToolAnswer: ModelAnswer = { text: '{"tool":"none"}' };

export function formatAnswer(answer: ModelAnswer): string {
  if ("text" in answer) return answer.text;
  return JSON.stringify({ tool: `${NOTES}/${answer[0]}`, args: answer[1] });
}

/** Answers a question as a user who declines. */
export const declineQuestion: PassTurn["ask"] = async () => {
  throw new DeniedError("declined", "the user declined");
};

/** Runs the agent pass of overlay turns with a real agent and a scripted model, which gives one answer in each step. */
export class AgentPassHarness {
  readonly agentHarness: AgentHarness;
  readonly inference = new ScriptedService();
  readonly pass: LocalAgentPass;
  /** The confirmations that the agent pass requested from the user. */
  readonly confirmationRequests: ConfirmationSpec[] = [];
  /** The tool calls that the agent pass reported to the turn. */
  readonly reportedCalls: TurnCall[] = [];
  readonly answers: ModelAnswer[] = [];
  /** The user's answer to a confirmation request; by default an approval after the hold time of the call. */
  answer: PassTurn["ask"] = async ({ hold_ms: holdMs }) => {
    if (holdMs > 0) await this.agentHarness.clock.advance(holdMs);
    return userCaller(":1.5");
  };

  private constructor(agents: AgentHarness) {
    this.agentHarness = agents;
    this.inference.script = (request) =>
      says(request, [formatAnswer(this.answers.shift() ?? noToolAnswer)]);
    this.pass = new LocalAgentPass({
      inference: this.inference,
      agent: agents.agent,
      declarations: agents.registry,
      logger: silentLogger,
    });
    onTestFinished(() => this.pass[Symbol.asyncDispose]());
  }

  /** Opens an agent pass. Unless `options` change that, every tool matches every request. */
  static async open(
    answers: readonly ModelAnswer[] = [],
    options: Partial<AgentOptions> = {},
  ): Promise<AgentPassHarness> {
    const found: { agent?: AgentHarness } = {};
    const agents = await AgentHarness.open({
      discover: async () => found.agent?.agent.listTools() ?? [],
      ...options,
    });
    found.agent = agents;
    const harness = new AgentPassHarness(agents);
    harness.answers.push(...answers);
    return harness;
  }

  run(
    turn: Partial<PassTurn> = {},
    signal: AbortSignal = new AbortController().signal,
  ): Promise<PassOutcome> {
    return this.pass.run(
      {
        prompt: "do it",
        context: "",
        provenance: ["user"],
        caller: userCaller(),
        model: undefined,
        ask: (spec, asked) => {
          this.confirmationRequests.push(spec);
          return this.answer(spec, asked);
        },
        onCall: (call) => this.reportedCalls.push(call),
        ...turn,
      },
      signal,
    );
  }

  /** The prompts that the model received, one for each step of the agent pass. */
  get prompts(): readonly string[] {
    return this.inference.requests.map(({ prompts }) => textOfPrompt(prompts[0]));
  }

  /** Returns the ids of calls that wait for confirmation. */
  listParked(caller: Caller = userCaller()): readonly number[] {
    return this.agentHarness.agent.listParked(caller).map(({ call_id }) => call_id);
  }
}
