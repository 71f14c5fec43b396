import { onTestFinished } from "vitest";
import type { AgentOptions } from "../../src/assistant/agent/calls/agent.ts";
import type { ConfirmationSpec } from "../../src/assistant/agent/port.ts";
import type { Caller } from "../../src/assistant/caller.ts";
import { LocalAgentPass } from "../../src/assistant/overlay/agent-pass/local-agent-pass.ts";
import type { PassOutcome, PassTurn } from "../../src/assistant/overlay/agent-pass/port.ts";
import { DeniedError } from "../../src/assistant/overlay/denied.ts";
import type { TurnCall } from "../../src/assistant/overlay/port.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { AgentWorld, NOTES, user } from "./agent-world.ts";
import { ScriptedService, says, textOfPrompt } from "./scripted-service.ts";

/** What the model answers: a tool of the notes app with its arguments, `none`, or any text. */
export type Answer = readonly [tool: string, args: object] | { readonly text: string };

export const none: Answer = { text: '{"tool":"none"}' };

export function answerText(answer: Answer): string {
  if ("text" in answer) return answer.text;
  return JSON.stringify({ tool: `${NOTES}/${answer[0]}`, args: answer[1] });
}

/** Refuses as a person does. */
export const saysNo: PassTurn["ask"] = async () => {
  throw new DeniedError("declined", "the answer was no");
};

/** The agent pass over a real agent and a model that answers what the test says, one answer a step. */
export class PassWorld {
  readonly agents: AgentWorld;
  readonly inference = new ScriptedService();
  readonly pass: LocalAgentPass;
  /** What the person was asked. */
  readonly asked: ConfirmationSpec[] = [];
  /** What the turn was told of its calls. */
  readonly told: TurnCall[] = [];
  readonly answers: Answer[] = [];
  /** The person. */
  answer: PassTurn["ask"] = async () => user(":1.5");

  private constructor(agents: AgentWorld) {
    this.agents = agents;
    this.inference.script = (request) => says(request, [answerText(this.answers.shift() ?? none)]);
    this.pass = new LocalAgentPass({
      inference: this.inference,
      agent: agents.agent,
      declarations: agents.registry,
      logger: silentLogger,
    });
    onTestFinished(() => this.pass[Symbol.asyncDispose]());
  }

  /** Every tool is found, whatever the wish, unless `options` say otherwise. */
  static async open(
    answers: readonly Answer[] = [],
    options: Partial<AgentOptions> = {},
  ): Promise<PassWorld> {
    const found: { agent?: AgentWorld } = {};
    const agents = await AgentWorld.open({
      discover: async () => found.agent?.agent.listTools() ?? [],
      ...options,
    });
    found.agent = agents;
    const world = new PassWorld(agents);
    world.answers.push(...answers);
    return world;
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
        caller: user(),
        model: undefined,
        ask: (spec, asked) => {
          this.asked.push(spec);
          return this.answer(spec, asked);
        },
        onCall: (call) => this.told.push(call),
        ...turn,
      },
      signal,
    );
  }

  /** What the model was shown in each step. */
  get prompts(): readonly string[] {
    return this.inference.requests.map(({ prompts }) => textOfPrompt(prompts[0]));
  }

  /** Calls that wait for a person. */
  parked(caller: Caller = user()): readonly number[] {
    return this.agents.agent.listParked(caller).map(({ call_id }) => call_id);
  }
}
