import assert from "node:assert/strict";
import fc from "fast-check";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import { type AgentHarness, userCaller } from "./agent-harness.ts";
import { findOrderViolation } from "./call-entry-order.ts";

/** The state that a call must have according to a simple model of the agent. */
interface ExpectedCall {
  state: "parked" | "ended";
  code: string;
  /** The id of the note that an executed `create` has created. */
  note: string | undefined;
  undo: "none" | "ready" | "over";
}

interface ExpectedState {
  readonly calls: Map<number, ExpectedCall>;
  /** The executed calls that can be undone, the last one at the end. */
  readonly stack: number[];
  ledger: "ok" | "down" | "torn";
  appIsThere: boolean;
  /** The number of tool calls that may have reached the app. */
  dispatches: number;
}

export type AgentStep =
  | {
      readonly kind: "request";
      readonly tool: "list" | "create" | "star" | "delete";
      readonly trusted: boolean;
    }
  | {
      readonly kind: "confirm";
      readonly pick: number;
      readonly approve: boolean;
      readonly twice: boolean;
    }
  | { readonly kind: "wait"; readonly seconds: number }
  | { readonly kind: "undo" }
  | { readonly kind: "skip"; readonly pick: number }
  | { readonly kind: "ledger"; readonly mode: ExpectedState["ledger"] }
  | { readonly kind: "app"; readonly isThere: boolean }
  | { readonly kind: "restart" };

export const agentSteps: fc.Arbitrary<AgentStep> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("request" as const),
      tool: fc.constantFrom("list" as const, "create" as const, "star" as const, "delete" as const),
      trusted: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("confirm" as const),
      pick: fc.nat(20),
      approve: fc.boolean(),
      twice: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("wait" as const),
      seconds: fc.integer({ min: 1, max: 400 }),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: "undo" as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("skip" as const), pick: fc.nat(20) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("ledger" as const),
      mode: fc.constantFrom("ok" as const, "ok" as const, "down" as const, "torn" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("app" as const), isThere: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ kind: "restart" as const }) },
);

/** Runs a sequence of steps on the agent, derives the expected state, and compares both after each step. */
export class AgentSimulation {
  readonly #harness: AgentHarness;
  readonly #expected: ExpectedState = {
    calls: new Map(),
    stack: [],
    ledger: "ok",
    appIsThere: true,
    dispatches: 0,
  };
  /** The time of the boot clock in milliseconds at which each waiting call expires. */
  readonly #expiry = new Map<number, number>();
  /** The time of the boot clock in milliseconds from which a waiting call can be approved. */
  readonly #approvable = new Map<number, number>();

  constructor(harness: AgentHarness) {
    this.#harness = harness;
  }

  async runStep(step: AgentStep): Promise<void> {
    switch (step.kind) {
      case "request":
        await this.#request(step.tool, step.trusted);
        break;
      case "confirm":
        await this.#confirm(this.#pick(step.pick), step.approve, step.twice);
        break;
      case "wait":
        await this.#advance(step.seconds * 1_000);
        break;
      case "undo":
        await this.#undo();
        break;
      case "skip":
        await this.#skip(this.#pick(step.pick));
        break;
      case "ledger":
        this.#expected.ledger = this.#harness.ledger.mode = step.mode;
        break;
      case "app":
        this.#expected.appIsThere = step.isThere;
        if (step.isThere) this.#harness.startNotes();
        else await this.#harness.app.die();
        break;
      default:
        await this.#harness.restart();
        for (const callId of this.#expiry.keys()) this.#end(callId, "restarted");
    }
    await this.#compare();
  }

  /** Makes the ledger work again, and checks that the ledger then records everything. */
  async finish(): Promise<void> {
    this.#expected.ledger = this.#harness.ledger.mode = "ok";
    await this.#advance(130_000);
    // The outbox appends its entries one after the other, so it may take several turns of the event loop until all are
    // written.
    for (let turn = 0; turn < 100; turn += 1) await this.#harness.clock.settle();
    for (const [callId, { state, code }] of this.#expected.calls) {
      const story = this.#harness.ledger.entryNamesOfCall(callId);
      const life = `${callId} ${story.join(" ")}`;
      assert.equal(findOrderViolation(story), undefined, life);
      if (state !== "ended") continue;
      const last = story.findLast((step) => /^call\.(result|declined|expired)/.test(step));
      const [name = "", said] = (last ?? "").split(":");
      assert.equal(said ?? name.replace("call.", ""), code, life);
    }
  }

  async #request(tool: "list" | "create" | "star" | "delete", trusted: boolean): Promise<void> {
    const model = this.#expected;
    const args = tool === "list" ? {} : tool === "delete" ? { id: "none" } : { title: "a" };
    const provenance = trusted ? ["user"] : ["web"];
    const { callId, disposition, detail } = await this.#harness.request(tool, args, { provenance });
    const runs = trusted && (tool === "list" || tool === "star");
    if (model.ledger !== "ok") {
      assert.equal(detail.code, "ledger_unavailable");
      return;
    }
    if (!runs && !model.appIsThere) {
      assert.equal(detail.code, "app_unavailable");
      return;
    }
    if (!runs) {
      assert.match(disposition, /^confirm-/);
      model.calls.set(callId, { state: "parked", code: "", note: undefined, undo: "none" });
      this.#expiry.set(callId, this.#harness.clock.now() + 300_000);
      const holdMs = this.#harness.confirmationRequests.at(-1)?.spec.hold_ms ?? 0;
      this.#approvable.set(callId, this.#harness.clock.now() + holdMs);
      return;
    }
    model.dispatches += 1;
    assert.equal(detail.code, model.appIsThere ? "ok" : "app_unavailable");
    if (tool === "star") this.#executed(callId, detail.code, detail.result);
  }

  async #confirm(callId: number | undefined, approve: boolean, twice: boolean): Promise<void> {
    if (callId === undefined) return;
    const [model, call] = [this.#expected, this.#expected.calls.get(callId)];
    if (!call) return;
    const heldMs = (this.#approvable.get(callId) ?? 0) - this.#harness.clock.now();
    if (approve && call.state === "parked" && heldMs > 0) {
      const early = this.#harness.agent.confirm(callId, true, userCaller());
      await assert.rejects(early, { code: "busy" });
      await this.#advance(heldMs);
    }
    const ends = await Promise.all([
      this.#harness.agent.confirm(callId, approve, userCaller()),
      ...(twice ? [this.#harness.agent.confirm(callId, !approve, userCaller(":1.2"))] : []),
    ]);
    const [end] = ends;
    for (const { detail } of ends) assert.equal(detail.code, end.detail.code);
    if (call.state === "ended") {
      assert.equal(end.detail.code, call.code);
      assert.equal(end.detail.replayed, true);
      return;
    }
    if (!approve) this.#end(callId, "declined");
    else if (model.ledger === "ok") {
      model.dispatches += 1;
      this.#expiry.delete(callId);
      this.#executed(callId, end.detail.code, end.detail.result);
      if (!model.appIsThere) assert.equal(end.detail.code, "app_unavailable");
    }
    // If the confirmation fails, the call has had no effect, and it still waits.
    const code = approve && model.ledger !== "ok" ? "ledger_unavailable" : call.code;
    assert.equal(end.detail.code, this.#expected.calls.get(callId)?.code || code);
  }

  async #undo(): Promise<void> {
    const model = this.#expected;
    const report = await this.#harness.agent.undo(userCaller());
    const top = model.stack.at(-1);
    if (top === undefined) {
      assert.equal(report.status, "nothing");
      return;
    }
    assert.equal(report.call_id, top);
    if (model.ledger !== "ok") {
      assert.equal(report.error?.code, "ledger_unavailable");
      return;
    }
    model.dispatches += 1;
    assert.equal(report.status, model.appIsThere ? "undone" : "failed");
    if (model.appIsThere) this.#removeUndoable(top);
    assert.equal(report.remaining, model.stack.length);
  }

  async #skip(callId: number | undefined): Promise<void> {
    const model = this.#expected;
    if (callId === undefined) return;
    const skipped = await this.#harness.agent.undoSkip(callId, userCaller()).then(
      ({ status }) => status,
      (error: unknown) => error,
    );
    if (!model.stack.includes(callId)) assert.equal(codeOf(skipped), "not_found");
    else if (model.ledger !== "ok") assert.equal(skipped, "failed");
    else {
      assert.equal(skipped, "skipped");
      this.#removeUndoable(callId, true);
    }
  }

  /** Advances the time, and ends the calls that expire. */
  async #advance(ms: number): Promise<void> {
    await this.#harness.clock.advance(ms);
    for (const [callId, at] of this.#expiry) {
      if (at <= this.#harness.clock.now()) this.#end(callId, "expired");
    }
  }

  #executed(callId: number, code: string, result: unknown): void {
    const note =
      typeof result === "object" && result !== null ? Reflect.get(result, "id") : undefined;
    const isUndoable = code === "ok" && typeof note === "string";
    this.#expected.calls.set(callId, {
      state: "ended",
      code,
      note: isUndoable ? note : undefined,
      undo: isUndoable ? "ready" : "none",
    });
    if (isUndoable) this.#expected.stack.push(callId);
  }

  #removeUndoable(callId: number, keepsNote = false): void {
    this.#expected.stack.splice(this.#expected.stack.indexOf(callId), 1);
    const call = this.#expected.calls.get(callId);
    if (!call) return;
    call.undo = "over";
    if (!keepsNote) call.note = undefined;
  }

  #end(callId: number, code: string): void {
    this.#expiry.delete(callId);
    this.#expected.calls.set(callId, { state: "ended", code, note: undefined, undo: "none" });
  }

  #pick(pick: number): number | undefined {
    const calls = [...this.#expected.calls.keys()];
    return calls.length === 0 ? undefined : calls[pick % calls.length];
  }

  async #compare(): Promise<void> {
    const notes = [...this.#expected.calls.values()].flatMap(({ note }) => note ?? []);
    assert.deepEqual([...this.#harness.notes.keys()].toSorted(), notes.toSorted());
    const written = this.#harness.ledger.entries.filter(({ name }) => name.endsWith(".dispatch"));
    // The app has no more effects than expected, and each effect has a ledger entry.
    assert.ok(this.#harness.received <= this.#expected.dispatches);
    assert.ok(this.#expected.dispatches <= written.length);
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof AssistantError ? error.code : error;
}
