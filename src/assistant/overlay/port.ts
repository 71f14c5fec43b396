import type { ConfirmationSpec } from "../agent/port.ts";
import type { Caller } from "../caller.ts";
import type { DataClass } from "../data-class.ts";

/**
 * The queries of frontends. Each query runs one turn, which includes context, tools and consent. The methods reject
 * with AssistantErrors: `invalid_request`; `limits_exceeded` if 4 queries run and 16 wait; `not_found` for an unknown
 * query or a query of another connection; `forbidden`.
 */
export interface OverlayService {
  /** Starts a query and returns its id. No event of the query is sent before the caller has the id. */
  ask(request: AskRequest, caller: Caller): number;

  /**
   * Ends a query. If the query waits for the user, only its question is declined; after a declined tool call the query
   * continues. Has no effect on a query that has ended.
   */
  cancel(queryId: number, caller: Caller): void;

  /**
   * Answers the open question of a query. With `question`, answers only the question with this number. Rejects with
   * `invalid_request` if that question is closed, even if the query has asked another question since, and with
   * `forbidden` for a sandboxed app, which may not consent for the user. Rejects with `busy` if a call is approved
   * before the hold time of its question.
   */
  respond(queryId: number, isApproved: boolean, caller: Caller, question?: number): void;

  status(): Promise<OverlayStatus>;

  /** Shows the frontend's window. Rejects with `not_found` if there is no frontend. */
  summon(prompt: string): Promise<void>;
  hide(): Promise<void>;

  handleDisconnect(connection: string): void;

  /** Subscribes to the events of queries. Returns a function that ends the subscription. */
  subscribe(listener: OverlayListener): () => void;
}

export interface AskRequest {
  /** The user's question or request; must not be empty. */
  readonly prompt: string;
  readonly lane: Lane;
  readonly myStuff: boolean;
  /**
   * The scopes to search for `myStuff`; undefined means all sources that the caller may see. An empty list and unknown
   * scopes give no passages.
   */
  readonly scopes: readonly string[] | undefined;
  readonly window: boolean;
  readonly selection: boolean;
  /** The model that should answer: a local model, or `remote:<provider>:<model>`; undefined means the default model. */
  readonly modelHint: string | undefined;
  /** The earlier turns of the conversation; allowed only in the chat lane. */
  readonly history: readonly HistoryTurn[];
}

/**
 * A query in the lane `agent` is one turn with context and tools. A query in the lane `chat` belongs to a conversation
 * without tools.
 */
export type Lane = "agent" | "chat";

export interface HistoryTurn {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/**
 * Receives the events of queries: `started` exactly once, as the first event, also for a query that ends before its
 * turn begins; any number of `token`; `finished` exactly once, as the last event. `to` is the connection that asked.
 */
export interface OverlayListener {
  started(queryId: number, meta: TurnMeta, to: string): void;
  /** Receives a part of the answer: non-empty text of whole code points. */
  token(queryId: number, text: string, to: string): void;
  confirmationNeeded(queryId: number, spec: OverlaySpec, to: string): void;
  finished(queryId: number, status: FinishedStatus, detail: FinishedDetail, to: string): void;
}

/** The JSON document meta_json of the signal Started, which describes how the companion answers a query. */
export interface TurnMeta {
  readonly v: 1;
  readonly lane: Lane;
  /** The requested model, null for the default model. The model that answered is in the detail of Finished. */
  readonly model: string | null;
  readonly route: "local" | "remote";
  /** The requested options that take effect: `my_stuff` and `scopes` if the user's data were searched. */
  readonly options: readonly string[];
  /**
   * The requested options that have no effect: `window` and `selection` always, `my_stuff` and `scopes` if the user's
   * data were not searched, and `tools` if no local model can choose tools.
   */
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

/**
 * The JSON document spec_json of ConfirmationNeeded. The member `question` is 1 for the first question of a query, 2
 * for the second one, and so on.
 */
export type OverlaySpec = ConfirmationRequest & { readonly question: number };

/**
 * The subject of a question to the user: a tool call, in the JSON format of Agent1's confirmations, or data that would
 * leave the machine.
 */
export type ConfirmationRequest = (ConfirmationSpec & { readonly kind: "call" }) | ConsentRequest;

export interface ConsentRequest {
  readonly v: 1;
  readonly kind: "consent";
  readonly provider: string;
  /** The provider's address, such as `https://openrouter.ai/api/v1`. Consent is valid only for this address. */
  readonly address: string;
  readonly model: string;
  /**
   * The data classes for which the user is asked: they are not allowed yet, and the answer counts for this turn only.
   */
  readonly scopes: readonly DataClass[];
  /** The search results of this turn, which are sent to the provider if the user consents. */
  readonly sources: readonly SourceMeta[];
  /** The tool calls of this turn. Their results are sent to the provider if the user consents. */
  readonly calls: readonly TurnCall[];
  /** The beginning of the prompt in one line. The user needs it if another program asks for consent. */
  readonly prompt: string;
  /** The program that sent the query, in the format of the caller in a ConfirmationSpec. */
  readonly caller: { readonly app: string | null; readonly verified: boolean };
  readonly expires_at: string;
}

export type FinishedStatus = "completed" | "failed" | "cancelled" | "denied";

/** The JSON document in the argument `detail` of the signal Finished. */
export interface FinishedDetail {
  readonly v: 1;
  /** `ok`, or the reason why the query ended: `cancelled`, `declined`, `expired`, or the code of an AssistantError. */
  readonly code: string;
  /**
   * For a completed query: empty, or a note that no local model could choose tools. Otherwise the reason for the end.
   */
  readonly message: string;
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
  } | null;
  readonly finish_reason: "stop" | "length" | null;
  /** Name of the model that answered; null if no model answered. */
  readonly model: string | null;
  /** The tool calls of the query, in the order in which the model requested them. */
  readonly calls: readonly TurnCall[];
}

export interface TurnCall {
  readonly call_id: number;
  readonly app_id: string;
  readonly tool: string;
  readonly status: "executed" | "failed" | "denied";
}

/** The answer to GetStatus; each key is sent as a variant. */
export interface OverlayStatus {
  readonly version: string;
  /** `idle` means that no query runs, `busy` that a query runs, and `waiting` that a query waits for the user. */
  readonly state: "idle" | "busy" | "waiting";
  readonly active: number;
  readonly pending_confirmations: number;
  readonly engine: string;
  /** The default local model; "" if there is none. */
  readonly model: string;
  /** The reason why the default local model is not known; "" if it is known, or if there is none. */
  readonly model_error: string;
  readonly http_port: number;
  readonly ledger_ok: boolean;
  readonly ledger_size: number;
  readonly index_docs: number;
  readonly index_state: string;
  readonly window_available: false;
  readonly selection_available: false;
  /** The scopes that the user has allowed to leave the machine. */
  readonly consent: readonly DataClass[];
  /** The ids of the providers that have a credential. */
  readonly providers: readonly string[];
  readonly uptime_ms: number;
}
