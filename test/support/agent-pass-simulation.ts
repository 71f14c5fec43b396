import assert from "node:assert/strict";
import fc from "fast-check";
import { assessTrust } from "../../src/assistant/agent/policy.ts";
import type { ConfirmationSpec, Tier } from "../../src/assistant/agent/port.ts";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import type { PassTurn } from "../../src/assistant/overlay/agent-pass/port.ts";
import { DeniedError } from "../../src/assistant/overlay/denied-error.ts";
import { getErrorMessage } from "../../src/base/errors.ts";
import { NOTES, notesTools, sandboxedCaller, userCaller } from "./agent-harness.ts";
import { AgentPassHarness, formatAnswer } from "./agent-pass-harness.ts";
import { findOrderViolation } from "./call-entry-order.ts";
import { forever, says } from "./scripted-service.ts";

/** The model's answer in one step of the agent pass. */
type Step =
  | "list"
  | "star"
  | "create"
  | "delete"
  | "again"
  | "invalid"
  | "garbage"
  | "none"
  | "fails";

/** The user's answer to the confirmation request for a call. */
type Answer =
  | "yes"
  | "no"
  | "expires"
  | "yes elsewhere"
  | "no elsewhere"
  | "yes of both"
  | "yes and elsewhere no"
  | "breaks"
  | "forbidden"
  | "turn ends"
  | "ledger breaks, then yes";

export interface SimulatedTurn {
  readonly tools: readonly string[];
  readonly steps: readonly Step[];
  readonly answers: readonly Answer[];
  readonly provenance: readonly string[];
  readonly isSandboxed: boolean;
  /** If true, the app has exited before the turn begins. */
  readonly isAppGone: boolean;
  /**
   * The number of ledger appends after which the caller disconnects, which aborts the turn; undefined if the caller
   * stays.
   */
  readonly leavesAfter: number | undefined;
}

const steps: fc.Arbitrary<Step> = fc.constantFrom(
  "list",
  "list",
  "star",
  "create",
  "create",
  "delete",
  "again",
  "invalid",
  "garbage",
  "none",
  "fails",
);
const answers: fc.Arbitrary<Answer> = fc.constantFrom(
  "yes",
  "yes",
  "yes",
  "no",
  "expires",
  "yes elsewhere",
  "yes elsewhere",
  "no elsewhere",
  "yes of both",
  "yes and elsewhere no",
  "breaks",
  "forbidden",
  "turn ends",
  "ledger breaks, then yes",
);
export const simulatedTurns: fc.Arbitrary<SimulatedTurn> = fc.record({
  tools: fc.subarray(["list", "star", "create", "delete"], { minLength: 1 }),
  steps: fc.array(steps, { maxLength: 7 }),
  answers: fc.array(answers, { maxLength: 6 }),
  provenance: fc.constantFrom(["user"], ["user"], ["user", "file:notes"], ["web"], []),
  isSandboxed: fc.boolean(),
  isAppGone: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
  leavesAfter: fc.option(fc.nat(12), { nil: undefined, freq: 3 }),
});

/** Runs the agent pass of each simulated turn, and checks after each turn that no tool ran without permission. */
export class AgentPassSimulation {
  readonly #harness: AgentPassHarness;
  /** The calls that a caller has approved, whether in the turn or through another frontend. */
  readonly #approved = new Set<number>();
  /** A counter that makes the titles of simulated notes unique. */
  #mark = 0;
  #lastText = "";
  readonly dispatched = { reads: 0, effects: 0 };

  constructor(harness: AgentPassHarness) {
    this.#harness = harness;
  }

  async runTurn(turn: SimulatedTurn): Promise<void> {
    const harness = this.#harness;
    const { agentHarness: agents } = harness;
    agents.ledger.mode = "ok";
    agents.startNotes();
    if (turn.isAppGone) await agents.app.die();
    agents.registry.set([
      {
        appId: NOTES,
        name: "Notes",
        isActivatable: false,
        tools: notesTools.filter(({ name }) => turn.tools.includes(name)),
      },
    ]);
    const leaving = new AbortController();
    let appends = 0;
    agents.ledger.onAppend = () => {
      appends += 1;
      if (appends === turn.leavesAfter) leaving.abort(new Error("left"));
    };
    const begun = agents.ledger.entries.length;
    const toldBefore = harness.reportedCalls.length;
    const questions = turn.answers[Symbol.iterator]();
    const model = turn.steps[Symbol.iterator]();
    harness.inference.requests.length = 0;
    harness.inference.script = (request) => {
      const { value } = model.next();
      if (value === "fails") throw new AssistantError("queue_full", "later");
      this.#lastText = this.#buildModelAnswer(value ?? "none");
      return says(request, [this.#lastText]);
    };
    harness.answer = (spec, asked) =>
      this.#answer(spec, questions.next().value ?? "no", asked, leaving);

    const caller = turn.isSandboxed ? sandboxedCaller("org.example.chat") : userCaller();
    const { provenance } = turn;
    const ended = await harness.run({ caller, provenance }, leaving.signal).then(
      (outcome) => ({ outcome, error: undefined }),
      (error: unknown) => ({ outcome: undefined, error }),
    );
    if (leaving.signal.aborted && ended.error !== undefined) {
      // All pending calls are withdrawn or have ended before the check.
      await agents.clock.settle();
      await agents.clock.settle();
    }
    agents.ledger.onAppend = () => {};

    assert.deepEqual(harness.listParked(), []);
    assert.ok(harness.inference.requests.length <= 5);
    const told = harness.reportedCalls.slice(toldBefore);
    if (ended.outcome) {
      assert.deepEqual(ended.outcome.calls, told);
      assert.deepEqual(
        ended.outcome.results.map(({ call }) => call),
        told,
      );
    } else if (!leaving.signal.aborted) this.#assertExpectedError(ended.error);
    this.#checkLedger(begun, turn);
  }

  /** Checks the ledger entries that the turn has written. */
  #checkLedger(begun: number, turn: SimulatedTurn): void {
    const { ledger } = this.#harness.agentHarness;
    let chain: readonly string[] = [];
    let dispatched = 0;
    for (const { name, fields } of ledger.entries.slice(begun)) {
      const call = Number(fields["call"]);
      if (name === "agent.call.requested") {
        const labels = stringsOf(fields["chain"]);
        for (const label of [...turn.provenance, ...chain])
          assert.ok(labels.includes(label), label);
        if (dispatched > 0) assert.equal(assessTrust(labels), "untrusted");
        chain = labels;
        assert.equal(findOrderViolation(ledger.entryNamesOfCall(call)), undefined);
      }
      if (name !== "agent.call.dispatch") continue;
      dispatched += 1;
      const story = ledger.entryNamesOfCall(call);
      const tier = this.#tierOf(fields["tool"]);
      // A call that was parked must have been approved. A call that was not parked must be a read with a trusted
      // provenance.
      if (story.includes("call.parked")) assert.ok(this.#approved.has(call), story.join(" "));
      else assert.deepEqual([tier, assessTrust(chain)], ["read", "trusted"]);
      if (tier === "read") this.dispatched.reads += 1;
      else this.dispatched.effects += 1;
    }
  }

  #tierOf(tool: unknown): Tier | undefined {
    return notesTools.find(({ name }) => name === tool)?.tier;
  }

  #assertExpectedError(error: unknown): void {
    if (error instanceof DeniedError) assert.match(error.code, /^(expired|manifest_changed)$/);
    else if (error instanceof AssistantError)
      assert.match(error.code, /^(queue_full|ledger_unavailable|forbidden)$/);
    else assert.equal(getErrorMessage(error), "the frontend has gone");
  }

  #buildModelAnswer(step: Step): string {
    this.#mark += 1;
    const title = `mark ${this.#mark}`;
    switch (step) {
      case "list":
        return formatAnswer(["list", {}]);
      case "star":
      case "create":
        return formatAnswer([step, { title }]);
      case "delete":
        return formatAnswer(["delete", { id: `n${this.#mark % 5}` }]);
      case "again":
        return this.#lastText;
      case "invalid":
        return formatAnswer(["create", { title: this.#mark }]);
      case "garbage":
        return `{"tool":"${title}","args":{}}`;
      default:
        return '{"tool":"none"}';
    }
  }

  async #answer(
    { call_id: callId, hold_ms: holdMs }: ConfirmationSpec,
    answer: Answer,
    asked: AbortSignal,
    leaving: AbortController,
  ): ReturnType<PassTurn["ask"]> {
    const { agent, clock, ledger } = this.#harness.agentHarness;
    if (holdMs > 0) {
      await assert.rejects(agent.confirm(callId, true, userCaller(":1.8")), { code: "busy" });
      await clock.advance(holdMs);
    }
    const elsewhere = (approve: boolean) => {
      if (approve) this.#approved.add(callId);
      return agent.confirm(callId, approve, userCaller(":1.8"));
    };
    switch (answer) {
      case "no":
        throw new DeniedError("declined", "the user declined");
      case "expires":
        await clock.advance(301_000);
        return forever(asked);
      case "yes elsewhere":
      case "no elsewhere":
        await elsewhere(answer === "yes elsewhere");
        return forever(asked);
      case "yes of both":
        void elsewhere(true);
        return userCaller(":1.5");
      case "yes and elsewhere no":
        void elsewhere(false);
        break;
      case "breaks":
        throw new Error("the frontend has gone");
      case "forbidden":
        return sandboxedCaller("org.example.other");
      case "turn ends":
        leaving.abort(new Error("left"));
        return forever(asked);
      case "ledger breaks, then yes":
        ledger.mode = "down";
        break;
      default:
        break;
    }
    this.#approved.add(callId);
    return userCaller(":1.5");
  }
}

function stringsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map((item) => String(item)) : [];
}
