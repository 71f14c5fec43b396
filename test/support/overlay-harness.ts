import { onTestFinished } from "vitest";
import type { ConfirmationSpec } from "../../src/assistant/agent/port.ts";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import type { Caller } from "../../src/assistant/caller.ts";
import type { SearchHit } from "../../src/assistant/context/port.ts";
import type { DataClass } from "../../src/assistant/data-class.ts";
import type { ChatMessage } from "../../src/assistant/inference/runner.ts";
import type { AnswerEvent } from "../../src/assistant/inference/service-port.ts";
import type {
  AgentPass,
  PassOutcome,
  PassTurn,
} from "../../src/assistant/overlay/agent-pass/port.ts";
import { Overlay } from "../../src/assistant/overlay/overlay.ts";
import type { OverlayDependencies } from "../../src/assistant/overlay/overlay-dependencies.ts";
import type {
  AskRequest,
  FinishedDetail,
  FinishedStatus,
  OverlaySpec,
  TurnMeta,
} from "../../src/assistant/overlay/port.ts";
import type { OverlayUi, SummonOptions } from "../../src/assistant/overlay/ui/port.ts";
import { Consent } from "../../src/assistant/remote/consent.ts";
import type { AgentHarness } from "./agent-harness.ts";
import { AgentPassHarness, type ModelAnswer } from "./agent-pass-harness.ts";
import { createFakeContextService } from "./bus-harness.ts";
import { FakeLedger } from "./fake-ledger.ts";
import { createRecordingLogger, type LogEntry } from "./recording-logger.ts";
import { accepted, forever, ScriptedService } from "./scripted-service.ts";
import { VirtualClock } from "./virtual-clock.ts";

export type OverlayEvent =
  | { readonly kind: "started"; readonly id: number; readonly to: string; readonly meta: TurnMeta }
  | { readonly kind: "token"; readonly id: number; readonly to: string; readonly text: string }
  | {
      readonly kind: "needed";
      readonly id: number;
      readonly to: string;
      readonly spec: OverlaySpec;
    }
  | {
      readonly kind: "finished";
      readonly id: number;
      readonly to: string;
      readonly status: FinishedStatus;
      readonly detail: FinishedDetail;
    };

export const REMOTE_MODEL = "remote:cloud:gpt:large";

export function createCaller(connection: string, app?: Caller["app"]): Caller {
  return { connection, pid: 1, app };
}

export const defaultCaller = createCaller(":1.7");
export const sandboxedCaller = createCaller(":1.9", { id: "org.example.App", kind: "flatpak" });

export function askRequest(given: Partial<AskRequest> = {}): AskRequest {
  return {
    prompt: "When was the boiler serviced?",
    lane: "chat",
    myStuff: false,
    scopes: undefined,
    window: false,
    selection: false,
    modelHint: undefined,
    history: [],
    ...given,
  };
}

export function searchHit(given: Partial<SearchHit> = {}): SearchHit {
  return {
    source: "notes",
    provenance: "file:notes",
    snippet: "The boiler was serviced in May.",
    score: 0.5,
    coverage: 0.8,
    uri: "file:///notes/boiler.md",
    title: "Boiler",
    id: "1",
    mtime: "2030-01-01T00:00:00Z",
    parts: { lexical: 1, cosine: null },
    mode: "lexical",
    ...given,
  };
}

export function confirmationSpec(given: Partial<ConfirmationSpec> = {}): ConfirmationSpec {
  return {
    v: 1,
    call_id: 3,
    app_id: "org.example.Notes",
    app_name: "Notes",
    tool: "create",
    title: "Create",
    description: "Creates a note.",
    args: {},
    tiers: { declared: "write", effective: "write" },
    chain: ["user"],
    diff: [],
    undo: null,
    caller: { app: null, verified: false, actor: null },
    expires_at: "2030-01-01T00:05:00Z",
    hold_ms: 0,
    digest: "0",
    ...given,
  };
}

/** A frontend that records the calls of the companion. */
export class ScriptedUi implements OverlayUi {
  owner: string | undefined;
  visible = false;
  failure: Error | undefined;
  readonly calls: string[] = [];

  async connection(): Promise<string | undefined> {
    return this.owner;
  }

  async summon(prompt: string, { queryId }: SummonOptions): Promise<void> {
    this.#call(`summon ${JSON.stringify(prompt)}${queryId === undefined ? "" : ` ${queryId}`}`);
    this.visible = true;
  }

  async hide(): Promise<void> {
    this.#call("hide");
    this.visible = false;
  }

  async isVisible(): Promise<boolean> {
    if (this.failure) throw this.failure;
    return this.visible;
  }

  #call(call: string): void {
    if (this.owner === undefined) throw new AssistantError("not_found", "there is no frontend");
    if (this.failure) throw this.failure;
    this.calls.push(call);
  }
}

export const emptyPassOutcome: PassOutcome = { isAvailable: true, calls: [], results: [] };

/** The outcome of an agent pass that created one note. */
export const oneCallPassOutcome: PassOutcome = {
  isAvailable: true,
  calls: [{ call_id: 3, app_id: "org.example.Notes", tool: "create", status: "executed" }],
  results: [
    {
      call: { call_id: 3, app_id: "org.example.Notes", tool: "create", status: "executed" },
      text: '{"id":7}',
    },
  ],
};

/** An overlay all of whose dependencies the test controls. */
export class OverlayHarness implements AsyncDisposable {
  readonly clock = new VirtualClock();
  readonly inference = new ScriptedService();
  readonly ledger = new FakeLedger();
  readonly ui = new ScriptedUi();
  readonly consent = new Consent([]);
  readonly events: OverlayEvent[] = [];
  readonly logged: LogEntry[] = [];
  readonly passTurns: PassTurn[] = [];
  readonly aliases = new Map<string, readonly string[]>();
  readonly providers = new Map([
    ["cloud", "https://cloud.example"],
    ["other", "https://other.example"],
  ]);
  hits: (signal: AbortSignal) => Promise<readonly SearchHit[]> = async () => [];
  readonly searches: string[] = [];
  /** The scopes of each search that the overlay has requested. */
  readonly searchedScopes: (readonly string[] | undefined)[] = [];
  pass: AgentPass["run"] = async () => emptyPassOutcome;
  localModel: string | undefined = "tiny";
  /** The error with which the lookup of the local model fails; it succeeds by default. */
  localModelError: Error | undefined;
  readonly overlay: Overlay;

  /** `given` replaces the overlay's dependencies of the same names. */
  constructor(given: Partial<OverlayDependencies> = {}) {
    this.overlay = new Overlay({ ...this.#dependencies(), ...given });
    this.overlay.subscribe({
      started: (id, meta, to) => this.events.push({ kind: "started", id, to, meta }),
      token: (id, token, to) => this.events.push({ kind: "token", id, to, text: token }),
      confirmationNeeded: (id, spec, to) => this.events.push({ kind: "needed", id, to, spec }),
      finished: (id, status, detail, to) =>
        this.events.push({ kind: "finished", id, to, status, detail }),
    });
  }

  #dependencies(): OverlayDependencies {
    return {
      inference: this.inference,
      routes: {
        candidates: (model) =>
          (model === undefined ? undefined : this.aliases.get(model)) ?? [model],
      },
      context: createFakeContextService({
        search: async ({ query, scopes }, _, signal) => {
          this.searches.push(query);
          this.searchedScopes.push(scopes);
          return this.hits(signal);
        },
      }),
      remote: {
        missing: (classes) => this.consent.missing(classes),
        addressOf: (id) => this.providers.get(id),
      },
      agentPass: {
        run: (turn, signal) => {
          this.passTurns.push(turn);
          return this.pass(turn, signal);
        },
      },
      ui: this.ui,
      ledger: this.ledger,
      facts: {
        version: "1.2.3",
        httpPort: () => 7778,
        ledger: () => ({ ok: true, size: 12 }),
        consent: () =>
          (["prompt", "files"] as DataClass[]).filter((c) => this.consent.isAllowed(c)),
        providers: () => ["cloud"],
        localModel: async () => {
          if (this.localModelError) throw this.localModelError;
          return this.localModel;
        },
      },
      clock: this.clock,
      logger: createRecordingLogger(this.logged),
    };
  }

  /** Waits until all work that needs no virtual time is done. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 4; turn += 1) await this.clock.settle();
  }

  /** Sends a query, and waits for the events that need neither time nor an answer of the user. */
  async ask(given: Partial<AskRequest> = {}, caller: Caller = defaultCaller): Promise<number> {
    const id = this.overlay.ask(askRequest(given), caller);
    await this.settle();
    return id;
  }

  eventsOfQuery(id: number): OverlayEvent[] {
    return this.events.filter((told) => told.id === id);
  }

  eventSequence(id: number): string {
    return this.eventsOfQuery(id)
      .map((told) => {
        if (told.kind === "token") return told.text;
        if (told.kind === "finished") return `${told.status}/${told.detail.code}`;
        return told.kind === "needed" ? `needed(${told.spec.kind})` : told.kind;
      })
      .join(" ");
  }

  meta(id: number): TurnMeta | undefined {
    const started = this.eventsOfQuery(id).find((told) => told.kind === "started");
    return started?.kind === "started" ? started.meta : undefined;
  }

  finished(id: number): (FinishedDetail & { readonly status: FinishedStatus }) | undefined {
    const last = this.eventsOfQuery(id).at(-1);
    return last?.kind === "finished" ? { ...last.detail, status: last.status } : undefined;
  }

  spec(id: number): OverlaySpec | undefined {
    const needed = this.eventsOfQuery(id).findLast((told) => told.kind === "needed");
    return needed?.kind === "needed" ? needed.spec : undefined;
  }

  /** The messages of the last request with which the overlay asks the model for an answer. */
  get lastMessages(): readonly ChatMessage[] {
    const prompt = this.inference.requests.at(-1)?.prompts[0];
    return prompt?.kind === "chat" ? prompt.messages : [];
  }

  get lastQuestion(): string {
    return this.lastMessages.at(-1)?.content ?? "";
  }

  /** Makes queries use a real agent and its tools. The model is scripted: `answers` determines which tools it calls. */
  async useTools(answers: readonly ModelAnswer[]): Promise<AgentHarness> {
    const { pass, agentHarness } = await AgentPassHarness.open(answers);
    this.pass = (turn, signal) => pass.run(turn, signal);
    return agentHarness;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.overlay[Symbol.asyncDispose]();
  }
}

/** Creates a harness that is closed with its test. */
export function createOverlayHarness(given?: Partial<OverlayDependencies>): OverlayHarness {
  const harness = new OverlayHarness(given);
  onTestFinished(() => harness[Symbol.asyncDispose]());
  return harness;
}

export function textEvent(words: string): AnswerEvent {
  return { type: "text", choice: 0, text: words };
}

/** A script of the scripted service that emits one token, and keeps the answer open until the request is aborted. */
export async function* streamForever(_: unknown, signal: AbortSignal): AsyncGenerator<AnswerEvent> {
  yield accepted;
  yield textEvent("so");
  await forever(signal);
}

/** Returns `code: message` of the AssistantError with which the call rejects, or "none". */
export function getRefusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof AssistantError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "none";
}
