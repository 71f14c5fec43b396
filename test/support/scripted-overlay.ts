import { BusCallError, type BusValue, type BusVariant } from "../../src/dbus/port.ts";
import { assertText } from "./companion-client.ts";
import type { BusAnswer } from "./fake-companion.ts";

export type Emit = (member: string, signature: string, args: readonly BusValue[]) => void;

export const emptyMeta = {
  v: 1,
  lane: "agent",
  model: null,
  route: "local",
  options: [],
  unavailable: [],
  sources: [],
};
export const doneDetail = {
  v: 1,
  code: "ok",
  message: "",
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  finish_reason: "stop",
  model: "tiny",
  calls: [],
};

/** A query that a script answers. */
export class ScriptedTurn {
  readonly id: bigint;
  readonly prompt: string;
  readonly options: ReadonlyMap<string, BusVariant>;
  readonly #emit: Emit;
  #respond: ((isApproved: boolean) => void) | undefined;
  #cancel: (() => void) | undefined;
  isCancelled = false;

  constructor(id: bigint, prompt: string, options: ReadonlyMap<string, BusVariant>, emit: Emit) {
    this.id = id;
    this.prompt = prompt;
    this.options = options;
    this.#emit = emit;
  }

  option(name: string): BusValue | undefined {
    return this.options.get(name)?.value;
  }

  started(more: object = {}): void {
    this.#emit("Started", "ts", [this.id, JSON.stringify({ ...emptyMeta, ...more })]);
  }

  token(text: string): void {
    this.#emit("Token", "ts", [this.id, text]);
  }

  /** Asks the user for confirmation, and resolves to the answer. */
  confirm(spec: object): Promise<boolean> {
    return new Promise((resolve) => {
      this.#respond = resolve;
      this.#emit("ConfirmationNeeded", "ts", [this.id, JSON.stringify(spec)]);
    });
  }

  finish(status = "completed", more: object = {}): void {
    const detail = { ...doneDetail, ...more };
    this.#emit("Finished", "tss", [this.id, status, JSON.stringify(detail)]);
  }

  /** Resolves when the query is cancelled. */
  untilCancelled(): Promise<void> {
    return new Promise((resolve) => {
      this.#cancel = resolve;
    });
  }

  /** Handles the method Respond; tests also call it as another frontend. Returns false if no question is open. */
  respond(isApproved: boolean): boolean {
    const respond = this.#respond;
    this.#respond = undefined;
    respond?.(isApproved);
    return respond !== undefined;
  }

  cancel(): void {
    this.isCancelled = true;
    if (!this.respond(false)) this.#cancel?.();
  }
}

/** A scripted overlay of a companion. */
export class ScriptedOverlay {
  readonly turns: ScriptedTurn[] = [];
  readonly responses: boolean[] = [];
  /** The answers that contained the number of a question. */
  readonly questions: unknown[] = [];
  /** The behaviour of each query. It begins after the caller has received the query's id. */
  script: (turn: ScriptedTurn) => void | Promise<void> = (turn) => {
    turn.started();
    turn.token("Hello ");
    turn.token("there");
    turn.finish();
  };
  status: ReadonlyMap<string, BusVariant> = new Map<string, BusVariant>([
    ["model", { signature: "s", value: "tiny" }],
    ["providers", { signature: "as", value: ["openrouter"] }],
    ["state", { signature: "s", value: "idle" }],
  ]);
  emit: Emit = () => {};
  #nextId = 41n;

  readonly methods: Readonly<Record<string, BusAnswer>> = {
    Ask: (prompt, options) => {
      this.#nextId += 1n;
      const given = options instanceof Map ? options : new Map<string, BusVariant>();
      const turn = new ScriptedTurn(this.#nextId, assertText(prompt), given, (...signal) =>
        this.emit(...signal),
      );
      this.turns.push(turn);
      setImmediate(() => void this.script(turn));
      return [turn.id];
    },
    Respond: (id, isApproved) => {
      this.responses.push(isApproved === true);
      if (!this.#turn(id).respond(isApproved === true))
        throw new BusCallError("dev.assistant.Error.NotFound", "no such query waits");
      return [];
    },
    RespondTo: (id, question, isApproved) => {
      this.questions.push(question);
      return this.methods["Respond"]?.(id, isApproved) ?? [];
    },
    Cancel: (id) => {
      this.#turn(id).cancel();
      return [];
    },
    GetStatus: () => [this.status],
  };

  #turn(id: BusValue | undefined): ScriptedTurn {
    const turn = this.turns.find((candidate) => candidate.id === id);
    if (turn === undefined)
      throw new BusCallError("dev.assistant.Error.NotFound", "there is no such query");
    return turn;
  }
}

/** Returns a spec for a consent question. */
export function consentSpec(more: object = {}): object {
  return {
    v: 1,
    kind: "consent",
    provider: "openrouter",
    model: "openai/gpt-4o",
    scopes: ["prompt", "files"],
    sources: [],
    expires_at: "2030-01-01T00:05:00.000Z",
    ...more,
  };
}

/** Returns a spec for a question about a tool call. */
export function callSpec(more: object = {}): object {
  return {
    v: 1,
    kind: "call",
    call_id: 17,
    app_id: "org.example.Notes",
    app_name: "Notes",
    tool: "add_note",
    title: "Keep a note",
    description: "Of your notes.",
    args: { title: "Milk" },
    tiers: { declared: "write", effective: "write" },
    chain: ["user"],
    diff: [{ path: "/title", label: "Title", type: "string", value: "Milk" }],
    undo: null,
    caller: { app: null, verified: false, actor: null },
    expires_at: "2030-01-01T00:05:00.000Z",
    hold_ms: 0,
    digest: "d".repeat(64),
    ...more,
  };
}
