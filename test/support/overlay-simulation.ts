import fc from "fast-check";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import type { DataClass } from "../../src/assistant/data-class.ts";
import { DeniedError } from "../../src/assistant/overlay/denied-error.ts";
import type { AskRequest } from "../../src/assistant/overlay/port.ts";
import { raceWithAbort } from "../../src/base/race-with-abort.ts";
import {
  askRequest,
  confirmationSpec,
  createCaller,
  emptyPassOutcome,
  type OverlayEvent,
  OverlayHarness,
  oneCallPassOutcome,
  REMOTE_MODEL,
  searchHit,
  streamForever,
} from "./overlay-harness.ts";
import { accepted, started } from "./scripted-service.ts";

const connections = [":1.1", ":1.2", ":1.3"] as const;
type Connection = (typeof connections)[number];

export type OverlayStep =
  | { readonly kind: "ask"; readonly by: Connection; readonly given: Partial<AskRequest> }
  | { readonly kind: "cancel" | "yes" | "no"; readonly by: Connection; readonly which: number }
  | { readonly kind: "leave"; readonly by: Connection }
  /** Lets a paused dependency continue, or makes it fail. */
  | { readonly kind: "go" | "fail"; readonly which: number }
  | { readonly kind: "time"; readonly ms: number }
  | { readonly kind: "consent"; readonly scope: DataClass; readonly isAllowed: boolean }
  | { readonly kind: "frontend"; readonly owner: string | undefined; readonly visible: boolean };

const anybody = fc.constantFrom(...connections);
const anything = fc.nat(40);
export const overlaySteps: fc.Arbitrary<OverlayStep> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("ask" as const),
      by: anybody,
      given: fc.record({
        lane: fc.constantFrom("agent" as const, "chat" as const),
        myStuff: fc.boolean(),
        modelHint: fc.constantFrom(undefined, "tiny", REMOTE_MODEL, "remote:nobody:m", "best"),
      }),
    }),
  },
  { weight: 12, arbitrary: fc.record({ kind: fc.constant("go" as const), which: anything }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("fail" as const), which: anything }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom("cancel", "yes", "yes", "no"),
      by: anybody,
      which: anything,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("leave" as const), by: anybody }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("time" as const),
      ms: fc.constantFrom(0, 100, 150_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("consent" as const),
      scope: fc.constantFrom<DataClass[]>("prompt", "files"),
      isAllowed: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("frontend" as const),
      owner: fc.constantFrom(undefined, ":1.30", ":1.1"),
      visible: fc.boolean(),
    }),
  },
);

interface Waiting {
  go: () => void;
  fail: (error: Error) => void;
}

/** Suspends each call that the overlay makes to a dependency. The simulation continues these calls one at a time. */
class Pauses {
  readonly #waiting: Waiting[] = [];

  get count(): number {
    return this.#waiting.length;
  }

  async pause(signal: AbortSignal): Promise<void> {
    const entry: Waiting = { go: () => {}, fail: () => {} };
    this.#waiting.push(entry);
    const opened = new Promise<void>((resolve, reject) => {
      entry.go = resolve;
      entry.fail = reject;
    });
    try {
      await raceWithAbort(opened, signal);
    } finally {
      this.#waiting.splice(this.#waiting.indexOf(entry), 1);
    }
  }

  at(index: number): Waiting | undefined {
    return this.#waiting[index % Math.max(1, this.#waiting.length)];
  }
}

/**
 * A simulated overlay. Each of its calls to a dependency waits until a step of the simulation lets it continue, and the
 * simulation checks the overlay's invariants.
 */
export class OverlaySimulation {
  readonly harness = new OverlayHarness();
  readonly pauses = new Pauses();
  readonly asked: number[] = [];
  /** The consent scopes that the user has allowed, by query. */
  readonly allowed = new Map<number, Set<DataClass>>();
  readonly faults: string[] = [];
  #working = 0;
  #passes = 0;

  constructor() {
    const { harness, pauses } = this;
    harness.aliases.set("best", ["tiny", REMOTE_MODEL]);
    harness.hits = (signal) =>
      this.#countWork(async () => {
        await pauses.pause(signal);
        return [searchHit()];
      });
    harness.pass = ({ ask }, signal) =>
      this.#countWork(async () => {
        this.#passes += 1;
        const number = this.#passes;
        await pauses.pause(signal);
        if (number % 3 === 0) return emptyPassOutcome;
        if (number % 3 === 1) {
          this.#working -= 1;
          await ask(confirmationSpec(), signal).finally(() => (this.#working += 1));
        }
        await pauses.pause(signal);
        return oneCallPassOutcome;
      });
    harness.inference.script = (request, signal) => this.#answer(request, signal);
  }

  async *#answer(
    request: Parameters<OverlayHarness["inference"]["script"]>[0],
    signal: AbortSignal,
  ) {
    const { harness, pauses } = this;
    this.#enter();
    try {
      const { classes = [], allowedOnce = [] } = request.egress ?? {};
      const missing = harness.consent
        .missing(classes)
        .filter((scope) => !allowedOnce.includes(scope));
      const isRemote = request.model === REMOTE_MODEL || request.model === "best";
      if (isRemote && missing.length > 0)
        throw new AssistantError("consent_required", "not allowed");
      const approved = [...this.allowed.values()];
      if (
        allowedOnce.length > 0 &&
        !approved.some((scopes) => allowedOnce.every((scope) => scopes.has(scope)))
      )
        this.faults.push(`${allowedOnce.join()} was sent without permission`);
      if (
        allowedOnce.length > 0 &&
        !harness.ledger.entries.some(({ name }) => name === "remote.consent")
      )
        this.faults.push("consent was used that is not in the ledger");
      yield { ...accepted };
      yield started();
      for (const text of ["a", "b"]) {
        await pauses.pause(signal);
        yield { type: "text" as const, choice: 0, text };
      }
      yield { type: "end" as const, choice: 0, reason: "stop" as const, completionTokens: 2 };
    } finally {
      this.#working -= 1;
    }
  }

  async #countWork<T>(task: () => Promise<T>): Promise<T> {
    this.#enter();
    try {
      return await task();
    } finally {
      this.#working -= 1;
    }
  }

  #enter(): void {
    this.#working += 1;
    if (this.#working > 4) this.faults.push(`${this.#working} work at a time`);
  }

  async runStep(step: OverlayStep): Promise<void> {
    const { overlay } = this.harness;
    switch (step.kind) {
      case "ask":
        this.#ask(step.by, step.given);
        break;
      case "cancel":
        this.#tryRefusable(() => overlay.cancel(this.#id(step.which), createCaller(step.by)));
        break;
      case "yes":
      case "no":
        this.#respond(this.#id(step.which), step.kind === "yes", step.by);
        break;
      case "leave":
        overlay.handleDisconnect(step.by);
        break;
      case "go":
        this.pauses.at(step.which)?.go();
        break;
      case "fail":
        this.pauses
          .at(step.which)
          ?.fail(step.which % 2 === 0 ? new Error("odd") : new DeniedError("paused", "not now"));
        break;
      case "time":
        await this.harness.clock.advance(step.ms);
        break;
      case "consent":
        this.harness.consent.set(step.scope, step.isAllowed);
        break;
      case "frontend":
        Object.assign(this.harness.ui, { owner: step.owner, visible: step.visible });
        break;
    }
    await this.harness.clock.settle();
  }

  #ask(asker: Connection, given: Partial<AskRequest>): void {
    const open = this.asked.length - this.finished().length;
    const error = this.#tryRefusable(() =>
      this.asked.push(this.harness.overlay.ask(askRequest(given), createCaller(asker))),
    );
    const isRefused = error?.code === "limits_exceeded";
    if (isRefused !== (error !== undefined)) this.faults.push(`Ask ended with ${error?.code}`);
    if (isRefused && open < 20) this.faults.push(`refused with ${open} queries running or waiting`);
    if (!isRefused && open >= 24)
      this.faults.push(`accepted with ${open} queries running or waiting`);
  }

  #respond(id: number, isApproved: boolean, by: Connection): void {
    const needed = this.harness.eventsOfQuery(id).findLast((told) => told.kind === "needed");
    const error = this.#tryRefusable(() =>
      this.harness.overlay.respond(id, isApproved, createCaller(by)),
    );
    if (error || !isApproved || needed?.kind !== "needed" || needed.spec.kind !== "consent") return;
    const scopes = this.allowed.get(id) ?? new Set();
    this.allowed.set(id, scopes);
    for (const scope of needed.spec.scopes) scopes.add(scope);
  }

  #tryRefusable(work: () => unknown): AssistantError | undefined {
    try {
      work();
      return undefined;
    } catch (error) {
      if (error instanceof AssistantError) return error;
      throw error;
    }
  }

  #id(place: number): number {
    return this.asked[place % Math.max(1, this.asked.length)] ?? 0;
  }

  finished(): OverlayEvent[] {
    return this.harness.events.filter((told) => told.kind === "finished");
  }

  /** Lets all work run to its end, including the queries that wait for an answer that the user never gives. */
  async drain(): Promise<void> {
    for (let turn = 0; turn < 2_000 && this.finished().length < this.asked.length; turn += 1) {
      const next = this.pauses.at(0);
      if (next) next.go();
      else await this.harness.clock.advance(300_000);
      await this.harness.clock.settle();
    }
    await this.harness.settle();
  }

  /** Sends nine queries, which are more than may run concurrently, and returns the number of running queries. */
  async runningOfNine(): Promise<number> {
    this.harness.inference.script = streamForever;
    for (let at = 0; at < 9; at += 1) this.harness.overlay.ask(askRequest(), createCaller(":1.1"));
    await this.harness.settle();
    return this.harness.inference.running;
  }

  /** Returns the faults and the work left at the end. If nothing leaks, all lists are empty and all counts are 0. */
  leftovers() {
    const { harness } = this;
    return {
      faults: this.faults,
      oddStories: this.asked
        .map((id) => harness.eventSequence(id))
        .filter((story) => !wholeSequence.test(story)),
      oddIds: this.asked.filter((id, index) => id !== index + 1),
      ofNobody: harness.events.filter(({ id }) => !this.asked.includes(id)),
      working: this.#working,
      generating: harness.inference.running,
      paused: this.pauses.count,
      timers: harness.clock.timerCount,
    };
  }
}

export const nothingLeft: ReturnType<OverlaySimulation["leftovers"]> = {
  faults: [],
  oddStories: [],
  oddIds: [],
  ofNobody: [],
  working: 0,
  generating: 0,
  paused: 0,
  timers: 0,
};

/**
 * Matches a valid sequence of signals: Started comes once and first, Finished comes once and last, and questions come
 * before any token.
 */
const wholeSequence =
  /^started (needed\((consent|call)\) )*(a (b )?)?(completed|failed|cancelled|denied)\/[a-z_]+$/;
