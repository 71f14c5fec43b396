import type { Caller } from "../caller.ts";

/**
 * The service for tool calls, which the D-Bus interface and the overlay use: it lists the tools of apps, decides about
 * calls by tier and provenance, asks for confirmation, and undoes calls. The ledger records each step before it has an
 * effect.
 *
 * A failed or refused call is not an error but a disposition, `failed` or `denied`, with a code in the detail.
 * AssistantErrors are for requests that are not calls: `forbidden`, `not_found`, `busy`.
 */
export interface AgentService {
  /** Returns the tools of all apps with a valid manifest, also disabled ones, ordered by app and name. */
  listTools(): readonly ToolRecord[];

  /**
   * Returns at most 20 tools that match a request in plain language, best first; tools without any match and disabled
   * tools are left out.
   */
  discover(query: string, signal: AbortSignal): Promise<readonly ToolRecord[]>;

  /** Returns how `discover` ranks the tools at present: by words alone, or also by vectors. */
  discoverState(): DiscoverState;

  /** Runs a call, parks it for confirmation, or refuses it. */
  requestCall(request: CallRequest, caller: Caller, signal: AbortSignal): Promise<CallAnswer>;

  /**
   * Returns the calls that wait for confirmation, oldest first, as the ConfirmationSpecs that the signal
   * ConfirmationRequested reported. A sandboxed app gets only its own calls. If the arguments are large, returns only
   * the oldest calls, up to 4 MiB.
   */
  listParked(caller: Caller): readonly ConfirmationSpec[];

  /**
   * Approves or declines a parked call. If several callers answer, exactly one decides, and the other callers get the
   * same result with `replayed`. Rejects with `forbidden` if this caller may not confirm this call, and with `busy`
   * if it approves the call before the `hold_ms` of its ConfirmationSpec have passed; the call then stays parked.
   * Resolves to `failed` with `unknown_call` if there is no such call.
   */
  confirm(callId: number, approve: boolean, caller: Caller): Promise<CallResult>;

  /**
   * Declines a parked call for its requester, which needs no permission to confirm calls. If another caller is
   * already answering, waits for that result. Resolves to the result of the call. Rejects with `forbidden` if another
   * caller requested the call.
   */
  withdraw(callId: number, requester: Caller): Promise<CallResult>;

  /**
   * Reverts the last call that can be undone; a sandboxed app reverts only its own calls. A call whose undo has an
   * unknown outcome is passed over.
   */
  undo(caller: Caller): Promise<UndoReport>;

  /**
   * Tries again to revert a call whose undo has an unknown outcome. Rejects with `not_found` for any other call, and
   * with `forbidden` if a sandboxed app did not request the call itself.
   */
  undoCall(callId: number, caller: Caller): Promise<UndoReport>;

  /** Permanently marks the call as not to be undone, so that the next Undo reverts the call before it. */
  undoSkip(callId: number, caller: Caller): Promise<UndoReport>;

  /**
   * Makes this connection the only one that may confirm calls, until `handleDisconnect`. Rejects with `busy` if another
   * connection has registered or is registering, and with `ledger_unavailable` if the ledger cannot record it.
   */
  registerConfirmer(caller: Caller): Promise<void>;

  /**
   * Approves the changed definition of a tool. Rejects with `not_found` if `digest` is not that of the current
   * definition, and with `ledger_unavailable` if the ledger cannot record it.
   */
  approveTool(appId: string, tool: string, digest: string, caller: Caller): Promise<void>;

  handleDisconnect(connection: string): void;

  /** Subscribes to the events of calls. Returns a function that ends the subscription. */
  subscribe(listener: AgentListener): () => void;
}

export interface AgentListener {
  confirmationRequested(callId: number, spec: ConfirmationSpec): void;
  callResolved(callId: number, status: CallStatus): void;
}

export type Tier = "read" | "write" | "destructive";

/** One element of the JSON array that ListTools and Discover return. */
export interface ToolRecord {
  readonly app_id: string;
  readonly name: string;
  readonly tier: Tier;
  readonly description: string;
  readonly undoable: boolean;
  /** True if the user has disabled the tool or its app, so that its calls are denied; only in answers of ListTools. */
  readonly disabled?: true;
  /** The relevance, only in answers of Discover: larger is better. Scores are comparable only within one answer. */
  readonly score?: number;
}

/** The JSON document that the method DiscoverState returns. */
export interface DiscoverState {
  readonly v: 1;
  /** The number of tools that Discover searches. */
  readonly tools: number;
  /** The state of the tools' vectors; null if there is no embedding model, so that only words count. */
  readonly vectors: ToolVectorState | null;
}

export interface ToolVectorState {
  readonly model: string;
  /** The number of tools that have a vector. Queries compare vectors if all tools have one. */
  readonly embedded: number;
  /** The weight of the ranking by vectors; the ranking by words has the weight 1. */
  readonly weight: number;
  /** The longest time in milliseconds that a query waits for the embedding model. */
  readonly timeout_ms: number;
  /** The reason why the last query compared words only; null if it compared vectors, too. */
  readonly message: string | null;
}

export interface CallRequest {
  readonly appId: string;
  readonly tool: string;
  /** The arguments as JSON text, as the requester sent it. */
  readonly argsJson: string;
  /** A text by which the requester describes who wants the call. It is displayed and never trusted. */
  readonly actor: string | undefined;
  /** The requester's own claim about what led to the call, as provenance labels; undefined if it claims nothing. */
  readonly provenance: readonly string[] | undefined;
}

export type CallStatus = "executed" | "failed" | "denied";
export type Disposition = CallStatus | "confirm-chip" | "confirm-modal";

export interface CallAnswer {
  readonly callId: number;
  readonly disposition: Disposition;
  readonly detail: CallDetail;
}

export interface CallResult {
  readonly status: CallStatus;
  readonly detail: CallDetail;
}

export const failedCodes = [
  "unknown_app",
  "unknown_tool",
  "bad_json",
  "invalid_args",
  "app_unavailable",
  "activation_timeout",
  "transport_closed",
  "timeout",
  "tool_error",
  "bad_result",
  "result_too_large",
  "interrupted",
  "ledger_unavailable",
  "unknown_call",
] as const;
export type FailedCode = (typeof failedCodes)[number];

/**
 * The codes with which a call can fail after it was sent to the app, although the tool may have run, may still run, or
 * may never have begun.
 */
export const unknownOutcomeCodes: ReadonlySet<string> = new Set<FailedCode>([
  "timeout",
  "transport_closed",
  "bad_result",
  "result_too_large",
  "interrupted",
]);

export const deniedCodes = [
  "declined",
  "expired",
  "restarted",
  "caller_not_allowed",
  "app_disabled",
  "tool_disabled",
  "manifest_changed",
  "rate_limited",
  "too_many_parked",
  "paused",
] as const;
export type DeniedCode = (typeof deniedCodes)[number];

/**
 * The JSON document detail_json. Members without a value are left out; a `result` of null means that the tool
 * returned null.
 */
export interface CallDetail {
  readonly v: 1;
  /** `ok` for an executed call, `confirm` for a parked one. */
  readonly code: "ok" | "confirm" | FailedCode | DeniedCode;
  /** The message for the user, in one line. */
  readonly message: string;
  readonly app_id: string;
  readonly tool: string;
  readonly tier?: Tier;
  readonly effective_tier?: Tier;
  readonly chain?: readonly string[];
  /** Only for a failed call that was sent to the app: it is unknown whether the call has taken effect. */
  readonly outcome?: "unknown";
  /** True if the app answered only after the call had been reported as failed with an unknown outcome. */
  readonly late?: true;
  /** The structured result of an executed call, if the tool returned one. */
  readonly result?: unknown;
  /** The MCP content blocks of an executed call, as the tool returned them. */
  readonly content?: readonly unknown[];
  /** The errors in the arguments, each with its JSON Pointer; only for the code `invalid_args`. */
  readonly errors?: readonly ArgumentError[];
  readonly undoable?: boolean;
  /** The compensation that the method Undo would call. */
  readonly undo?: { readonly tool: string; readonly args: JsonObject };
  /** Time at which a parked call expires, in RFC 3339; only for a parked call. */
  readonly expires_at?: string;
  /** The digest that ApproveTool accepts; only for the code `manifest_changed`. */
  readonly digest?: string;
  /**
   * The ledger entry that was written before the call took effect. Missing if the ledger could not write it; the call
   * then did not run.
   */
  readonly ledger?: LedgerReference;
  /** Milliseconds from the dispatch to the result. */
  readonly ms?: number;
  /** True if an earlier answer to the confirmation had already produced this result. */
  readonly replayed?: true;
}

export interface ArgumentError {
  readonly path: string;
  readonly message: string;
  /** The JSON types that the schema allows here, such as `integer`, if the argument has another type. */
  readonly types?: readonly string[];
}

export interface LedgerReference {
  readonly seq: number;
  readonly leaf: string;
}

export type JsonObject = { readonly [name: string]: unknown };

/** The JSON document `spec_json`: a description of one call for the user who is asked to confirm the call. */
export interface ConfirmationSpec {
  readonly v: 1;
  readonly call_id: number;
  readonly app_id: string;
  readonly app_name: string;
  readonly tool: string;
  /** The tool's title from its manifest, or its name if it has none. */
  readonly title: string;
  readonly description: string;
  readonly args: JsonObject;
  readonly tiers: { readonly declared: Tier; readonly effective: Tier };
  readonly chain: readonly string[];
  /** The arguments for display to the user: one row for each argument, in the order of the schema. */
  readonly diff: readonly DiffRow[];
  /** The name of the tool that reverts the call, or null if the call cannot be undone. */
  readonly undo: string | null;
  readonly caller: {
    readonly app: string | null;
    readonly verified: boolean;
    readonly actor: string | null;
  };
  readonly expires_at: string;
  /**
   * The milliseconds for which the user must hold the confirm button; 0 means that a click is enough. The companion
   * accepts no approval before this time has passed since its request for confirmation.
   */
  readonly hold_ms: number;
  /** sha256 of the tool's declaration. The call is refused if the declaration has changed. */
  readonly digest: string;
}

export interface DiffRow {
  /** JSON Pointer of the argument. */
  readonly path: string;
  /** The title from the schema, or the property's name if it has none. */
  readonly label: string;
  readonly type: "string" | "number" | "boolean" | "null" | "array" | "object";
  readonly value: unknown;
}

/** The JSON document `report_json` that the method Undo of `dev.assistant.Agent1` returns. */
export interface UndoReport {
  readonly v: 1;
  readonly status: "undone" | "failed" | "skipped" | "nothing";
  readonly call_id: number | null;
  readonly app_id: string | null;
  readonly tool: string | null;
  readonly compensation: { readonly tool: string; readonly args: JsonObject } | null;
  readonly result: unknown;
  readonly error: {
    readonly code: FailedCode | DeniedCode;
    readonly message: string;
    /** Present if it is unknown whether the compensation has taken effect. */
    readonly outcome?: "unknown";
  } | null;
  /** Number of attempts to run this compensation. */
  readonly attempts: number;
  /** Number of calls that the next calls of Undo can still undo. */
  readonly remaining: number;
  /** The calls whose undo has an unknown outcome, the last executed call first. Undo passes over them. */
  readonly unknown: readonly number[];
  readonly ledger: LedgerReference | null;
}
