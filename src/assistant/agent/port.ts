import type { Caller } from "../caller.ts";

/**
 * The agent bus as its transports see it: tools that apps declare, calls of them by tier and provenance,
 * confirmation, and undo. Every path is in the ledger before anything happens.
 *
 * What goes wrong with a call is no error here but a disposition, `failed` or `denied`, with a code in the
 * detail. AssistantErrors are left for what is no call at all: `forbidden`, `not_found`, `busy`.
 */
export interface AgentService {
  /** Every tool of every app whose manifest is good, ordered by app and name. */
  listTools(): readonly ToolRecord[];

  /** The tools that a wish in plain words is about, best first; at most 20, and none that has nothing of it. */
  discover(query: string, signal: AbortSignal): Promise<readonly ToolRecord[]>;

  /** Runs a call, parks it for confirmation, or says why neither. */
  requestCall(request: CallRequest, caller: Caller, signal: AbortSignal): Promise<CallAnswer>;

  /**
   * The calls that wait for a person, oldest first, as `confirmationRequested` told of each; to a sandboxed
   * app those that it asked for itself. Of many with large arguments the oldest only, up to 4 MiB.
   */
  listParked(caller: Caller): readonly ConfirmationSpec[];

  /**
   * Ends the waiting of a parked call. Exactly one of any number of callers decides; the others get the
   * same answer with `replayed`. Rejects with `forbidden` where this caller may not confirm this call. A call
   * that there is not is `failed` with `unknown_call`.
   */
  confirm(callId: number, approve: boolean, caller: Caller): Promise<CallResult>;

  /**
   * Takes a parked call back in the name of whoever asked for it, who needs no right to confirm for that: it
   * ends as one that was declined. One that somebody else is answering is waited for, and keeps that end. Resolves
   * to how the call ended, whoever ended it. Rejects with `forbidden` where somebody else has asked for the call.
   */
  withdraw(callId: number, requester: Caller): Promise<CallResult>;

  /** Reverts the last call that can be. Rejects with `forbidden` for an app that did not ask for that call. */
  undo(caller: Caller): Promise<UndoReport>;

  /** Leaves that call as it is for good, so that the one before it comes next. */
  undoSkip(callId: number, caller: Caller): Promise<UndoReport>;

  /** From now on only this connection may confirm, until `callerGone`. `busy` where another one is it. */
  registerConfirmer(caller: Caller): void;

  /** Accepts what the app's tool has become; `not_found` where it is not what `digest` names. */
  approveTool(appId: string, tool: string, digest: string, caller: Caller): Promise<void>;

  handleDisconnect(connection: string): void;

  /** The function that it returns ends the subscription. */
  subscribe(listener: AgentListener): () => void;
}

export interface AgentListener {
  confirmationRequested(callId: number, spec: ConfirmationSpec): void;
  callResolved(callId: number, status: CallStatus): void;
}

export type Tier = "read" | "write" | "destructive";

/** An array of these is what ListTools and Discover answer. */
export interface ToolRecord {
  readonly app_id: string;
  readonly name: string;
  readonly tier: Tier;
  readonly description: string;
  readonly undoable: boolean;
  /** Discover only: how well it fits, larger is better; comparable within one answer. */
  readonly score?: number;
}

export interface CallRequest {
  readonly appId: string;
  readonly tool: string;
  /** As it came: JSON text. */
  readonly argsJson: string;
  /** Who wants it, in the requester's own words; told to people, never trusted. */
  readonly actor: string | undefined;
  /** The chain of what led to this call, as the requester claims it; undefined: it says nothing. */
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

/** detail_json. Members that have no value are left out, `null` stands for a result that is null. */
export interface CallDetail {
  readonly v: 1;
  /** `ok` for an executed call, `confirm` for a parked one. */
  readonly code: "ok" | "confirm" | FailedCode | DeniedCode;
  /** One line for a person. */
  readonly message: string;
  readonly app_id: string;
  readonly tool: string;
  readonly tier?: Tier;
  readonly effective_tier?: Tier;
  readonly chain?: readonly string[];
  /** Of an executed call: the structured result where the tool gave one. */
  readonly result?: unknown;
  /** Of an executed call: the content blocks of MCP, as the tool gave them. */
  readonly content?: readonly unknown[];
  /** Of `invalid_args`: JSON Pointers into the arguments, and what is wrong there. */
  readonly errors?: readonly ArgumentError[];
  readonly undoable?: boolean;
  /** The compensation that Undo would call. */
  readonly undo?: { readonly tool: string; readonly args: JsonObject };
  /** RFC 3339; of a parked call. */
  readonly expires_at?: string;
  /** The digest that ApproveTool takes, where the code is `manifest_changed`. */
  readonly digest?: string;
  /** The entry that stands before the act; absent where it could not be written. */
  readonly ledger?: LedgerReference;
  /** From the dispatch to the result. */
  readonly ms?: number;
  /** This answer was given before. */
  readonly replayed?: true;
}

export interface ArgumentError {
  readonly path: string;
  readonly message: string;
}

export interface LedgerReference {
  readonly seq: number;
  readonly leaf: string;
}

export type JsonObject = { readonly [name: string]: unknown };

/** spec_json: all that a person needs to decide. */
export interface ConfirmationSpec {
  readonly v: 1;
  readonly call_id: number;
  readonly app_id: string;
  readonly app_name: string;
  readonly tool: string;
  /** The tool's, in a few words: from its manifest, else its name. */
  readonly title: string;
  readonly description: string;
  readonly args: JsonObject;
  readonly tiers: { readonly declared: Tier; readonly effective: Tier };
  readonly chain: readonly string[];
  /** One row for each argument, in the order of the schema. */
  readonly diff: readonly DiffRow[];
  /** Which tool takes it back, where one does. */
  readonly undo: string | null;
  readonly caller: {
    readonly app: string | null;
    readonly verified: boolean;
    readonly actor: string | null;
  };
  readonly expires_at: string;
  /** How long a button has to be held; 0: a click. */
  readonly hold_ms: number;
  /** sha256 of the tool's declaration, to which the call is pinned. */
  readonly digest: string;
}

export interface DiffRow {
  /** JSON Pointer into the arguments. */
  readonly path: string;
  /** Of the schema: title, else the property's name. */
  readonly label: string;
  readonly type: "string" | "number" | "boolean" | "null" | "array" | "object";
  readonly value: unknown;
}

/** report_json. */
export interface UndoReport {
  readonly v: 1;
  readonly status: "undone" | "failed" | "skipped" | "nothing";
  readonly call_id: number | null;
  readonly app_id: string | null;
  readonly tool: string | null;
  readonly compensation: { readonly tool: string; readonly args: JsonObject } | null;
  readonly result: unknown;
  readonly error: { readonly code: FailedCode | DeniedCode; readonly message: string } | null;
  /** How often this compensation has been tried. */
  readonly attempts: number;
  /** Calls that can still be undone. */
  readonly remaining: number;
  readonly ledger: LedgerReference | null;
}
