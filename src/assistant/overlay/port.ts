import type { ConfirmationSpec } from "../agent/port.ts";
import type { Caller } from "../caller.ts";
import type { DataClass } from "../data-class.ts";

/**
 * A person's question and its answer, as frontends see them: queries that run one turn each, with context, tools
 * and consent inside the turn. AssistantErrors: `invalid_request`, `limits_exceeded` (4 run and 16 wait),
 * `not_found` for a query of another connection, or of none, `forbidden`.
 */
export interface OverlayService {
  /** A query's id, at once. Nothing is told of it before the caller has its id. */
  ask(request: AskRequest, caller: Caller): number;

  /** Ends a query; one that waits for consent is answered with no. Also for one that has ended. */
  cancel(queryId: number, caller: Caller): void;

  /**
   * Answers what a query waits for; with `question`, that one only: `invalid_request` where it is over, also where the
   * query has asked another one since. `forbidden` for a sandboxed app, which may not consent in a person's name.
   */
  respond(queryId: number, isApproved: boolean, caller: Caller, question?: number): void;

  status(): Promise<OverlayStatus>;

  /** Brings the frontend up. `not_found` where there is none. */
  summon(prompt: string): Promise<void>;
  hide(): Promise<void>;

  handleDisconnect(connection: string): void;

  /** The function that it returns ends the subscription. */
  subscribe(listener: OverlayListener): () => void;
}

export interface AskRequest {
  /** Not empty. */
  readonly prompt: string;
  readonly lane: Lane;
  readonly myStuff: boolean;
  readonly window: boolean;
  readonly selection: boolean;
  /** A local model, or `remote:<provider>:<model>`; undefined: the default. */
  readonly modelHint: string | undefined;
  /** Of the chat lane: the turns before this one. */
  readonly history: readonly HistoryTurn[];
}

/** agent: context and tools, one turn. chat: a conversation, without tools. */
export type Lane = "agent" | "chat";

export interface HistoryTurn {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/**
 * What frontends are told. Of each query: `started` once, unless it ends before; any number of tokens; `finished`
 * exactly once, last. `to` is the connection that asked.
 */
export interface OverlayListener {
  started(queryId: number, meta: TurnMeta, to: string): void;
  /** Whole code points, never "". */
  token(queryId: number, text: string, to: string): void;
  confirmationNeeded(queryId: number, spec: OverlaySpec, to: string): void;
  finished(queryId: number, status: FinishedStatus, detail: FinishedDetail, to: string): void;
}

/** meta_json. */
export interface TurnMeta {
  readonly v: 1;
  readonly lane: Lane;
  /** As it was asked for, null for the default; the answer's own name is in the end's detail. */
  readonly model: string | null;
  readonly route: "local" | "remote";
  /** Those that were asked for and are there: `my_stuff`. */
  readonly options: readonly string[];
  /** Those that were asked for and are not: `window`, `selection`; `tools` where no local model could choose any. */
  readonly unavailable: readonly string[];
  readonly sources: readonly SourceMeta[];
}

export interface SourceMeta {
  readonly source: string;
  readonly provenance: string;
  readonly title: string;
  readonly uri: string;
  readonly score: number;
}

/** spec_json of ConfirmationNeeded: what is asked, and the how manieth question of the query it is, from 1 on. */
export type OverlaySpec = ConfirmationRequest & { readonly question: number };

/** A tool call as Agent1 tells of it, or data that would leave the machine. */
export type ConfirmationRequest = (ConfirmationSpec & { readonly kind: "call" }) | ConsentRequest;

export interface ConsentRequest {
  readonly v: 1;
  readonly kind: "consent";
  readonly provider: string;
  /** Where that is: `https://openrouter.ai/api/v1`. The yes holds for this address alone. */
  readonly address: string;
  readonly model: string;
  /** What is not allowed yet, and would be sent for this one turn. */
  readonly scopes: readonly DataClass[];
  /** What search found for the turn. */
  readonly sources: readonly SourceMeta[];
  /** Tools that have been called for it, and whose results it holds. */
  readonly calls: readonly TurnCall[];
  /** How the prompt begins, in one line: whoever is asked for another program sees for what. */
  readonly prompt: string;
  /** Who asked the query, as in the spec of a call. */
  readonly caller: { readonly app: string | null; readonly verified: boolean };
  readonly expires_at: string;
}

export type FinishedStatus = "completed" | "failed" | "cancelled" | "denied";

/** `Finished.detail`. */
export interface FinishedDetail {
  readonly v: 1;
  /** `ok`, or why it ended: `cancelled`, `declined`, `expired`, or the code of an AssistantError. */
  readonly code: string;
  /** Of a completed query: what it had to do without, mostly "". */
  readonly message: string;
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
  } | null;
  readonly finish_reason: "stop" | "length" | null;
  /** As the model that answered is called; null where none did. */
  readonly model: string | null;
  /** Tool calls of the turn, in their order. */
  readonly calls: readonly TurnCall[];
}

export interface TurnCall {
  readonly call_id: number;
  readonly app_id: string;
  readonly tool: string;
  readonly status: "executed" | "failed" | "denied";
}

/** GetStatus, each key as a variant. */
export interface OverlayStatus {
  readonly version: string;
  /** idle: nothing runs. busy: something does. waiting: a person is asked. */
  readonly state: "idle" | "busy" | "waiting";
  readonly active: number;
  readonly pending_confirmations: number;
  readonly engine: string;
  /** The local default; "" where there is none. */
  readonly model: string;
  readonly http_port: number;
  readonly ledger_ok: boolean;
  readonly ledger_size: number;
  readonly index_docs: number;
  readonly index_state: string;
  readonly window_available: false;
  readonly selection_available: false;
  /** The scopes that are allowed. */
  readonly consent: readonly DataClass[];
  /** Those that have a credential. */
  readonly providers: readonly string[];
  readonly uptime_ms: number;
}
