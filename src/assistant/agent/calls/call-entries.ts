import { createHash } from "node:crypto";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { EntryValue, NewEntry } from "../../ledger/port.ts";
import type { CallStatus, Tier } from "../port.ts";
import type { PlannedCall } from "./planned-call.ts";

/**
 * The ledger entries of the agent. The entries of one call are found by their field `call`. They have one of the
 * following orders. The last entry is the end of the call, and a `result` without a `dispatch` means that nothing was
 * sent to the app.
 *
 *   requested result                               refused
 *   requested dispatch result                      run at once
 *   requested parked declined|expired              not confirmed; `expired` has the code expired or restarted
 *   requested parked confirmed result              confirmed, but no longer allowed
 *   requested parked confirmed dispatch result     confirmed and run
 *
 * A `result` whose code leaves the outcome unknown may be followed by `late`, the app's answer after the time limit.
 *
 * The daemon may die, or the ledger may fail, after any of these entries. A call with only `requested` never began.
 * `confirmed` and `dispatch` appear twice if the ledger stored them but then reported a failure: the user confirmed the
 * call again, and the ledger itself ended the first dispatch as `indeterminate`. A call that was running when the
 * daemon died ends with a result of the code `interrupted`.
 *
 * Ids, names, tiers and labels are plain fields. Arguments and results are sealed as canonical JSON text, because
 * entries cannot hold fractions.
 */

/** Results with more characters than this are sealed as a digest: the ledger is not a store for an app's files. */
const SEALED_CHARS_MAX = 1024 * 1024;
/** Names are cut to this length, because callers may send names of any length and with any characters. */
const NAME_CHARS_MAX = 256;

export interface RequestedCall {
  readonly callId: number;
  readonly appId: string;
  readonly tool: string;
  readonly tiers: { readonly declared: Tier; readonly effective: Tier } | undefined;
  readonly chain: readonly string[];
  readonly caller: Caller;
  readonly actor: string | undefined;
  /** The arguments as canonical JSON if they could be parsed, otherwise the text as received. */
  readonly argsText: string;
}

export function requestedEntry(call: RequestedCall): NewEntry {
  return {
    name: "agent.call.requested",
    fields: {
      call: call.callId,
      app: truncateName(call.appId),
      tool: truncateName(call.tool),
      tier: call.tiers?.declared ?? null,
      effective: call.tiers?.effective ?? null,
      chain: call.chain,
      caller: toCallerField(call.caller),
      actor: call.actor === undefined ? null : truncateName(call.actor),
    },
    sealed: { args: toSealedValue(call.argsText) },
  };
}

export function toRequestedCall(call: PlannedCall): RequestedCall {
  const { callId, app, tool, chain, decision, caller, actor, argsText } = call;
  const tiers = { declared: tool.tier, effective: decision.effective };
  return { callId, appId: app.appId, tool: tool.name, tiers, chain, caller, actor, argsText };
}

export function parkedEntry(call: PlannedCall, ttlMs: number): NewEntry {
  const { disposition, holdMs } = call.decision;
  return {
    name: "agent.call.parked",
    fields: { ...toCallReference(call), disposition, hold_ms: holdMs, ttl_ms: ttlMs },
  };
}

export function answeredEntry(
  call: PlannedCall,
  answer: "confirmed" | "declined",
  by: Caller,
): NewEntry {
  return {
    name: `agent.call.${answer}`,
    fields: { ...toCallReference(call), by: toCallerField(by) },
  };
}

export function expiredEntry(call: CallReference, code: "expired" | "restarted"): NewEntry {
  return { name: "agent.call.expired", fields: { ...call, code } };
}

export function dispatchEntry(call: PlannedCall): NewEntry {
  return {
    name: "agent.call.dispatch",
    fields: { ...toCallReference(call), digest: call.tool.digest },
  };
}

export function resultEntry(call: CallReference, result: ResultFields): NewEntry {
  return buildResultEntry("agent.call.result", call, result);
}

/** Builds the entry of an answer that the app gave after the time limit of the call. */
export function lateEntry(call: CallReference, result: ResultFields): NewEntry {
  return buildResultEntry("agent.call.late", call, result);
}

/**
 * Builds the entry that precedes a compensation. `call.tool` names the compensation, not the tool whose call it
 * reverts.
 */
export function undoDispatchEntry(
  call: CallReference,
  details: { readonly attempt: number; readonly by: Caller; readonly argsText: string },
): NewEntry {
  return {
    name: "agent.undo.dispatch",
    fields: { ...call, attempt: details.attempt, by: toCallerField(details.by) },
    sealed: { args: toSealedValue(details.argsText) },
  };
}

/** Builds the entry that precedes the approval of a tool whose definition differs from its manifest. */
export function toolApprovalEntry(
  approval: { readonly appId: string; readonly tool: string; readonly digest: string },
  by: Caller,
): NewEntry {
  const { appId, tool, digest } = approval;
  return {
    name: "agent.tool.approve",
    fields: { app: truncateName(appId), tool: truncateName(tool), digest, by: toCallerField(by) },
  };
}

/** Builds the entry that precedes the registration of the only connection that may confirm calls. */
export function confirmerEntry(by: Caller): NewEntry {
  return { name: "agent.confirmer.register", fields: { by: toCallerField(by) } };
}

export function undoResultEntry(call: CallReference, result: ResultFields): NewEntry {
  return buildResultEntry("agent.undo.result", call, result);
}

export function undoLateEntry(call: CallReference, result: ResultFields): NewEntry {
  return buildResultEntry("agent.undo.late", call, result);
}

/** Identifies a call and the tool that it calls. */
export type CallReference = { readonly call: number; readonly app: string; readonly tool: string };

export function toCallReference(call: PlannedCall): CallReference {
  return { call: call.callId, app: call.app.appId, tool: call.tool.name };
}

export interface ResultFields {
  /** The status of the call; `skipped` means that the user decided not to undo the call. */
  readonly status: CallStatus | "skipped";
  readonly code: string;
  /** Sequence number of the dispatch entry; undefined if the call was not dispatched. */
  readonly dispatch?: number | undefined;
  /** The result of the app as JSON text. */
  readonly text?: string | undefined;
}

function buildResultEntry(
  name: "agent.call.result" | "agent.call.late" | "agent.undo.result" | "agent.undo.late",
  call: CallReference,
  { status, code, dispatch, text }: ResultFields,
): NewEntry {
  const fields: Record<string, EntryValue> = {
    ...call,
    app: truncateName(call.app),
    tool: truncateName(call.tool),
  };
  if (dispatch !== undefined) fields["dispatch"] = dispatch;
  return {
    name,
    fields: { ...fields, status, code },
    ...(text === undefined ? {} : { sealed: { result: toSealedValue(text) } }),
  };
}

function toSealedValue(text: string): EntryValue {
  if (text.length <= SEALED_CHARS_MAX) return text;
  const sha256 = createHash("sha256").update(text).digest("hex");
  return { sha256, chars: text.length };
}

function toCallerField(caller: Caller): EntryValue {
  return {
    connection: caller.connection,
    app: caller.app?.id ?? null,
    verified: sandboxedApp(caller) !== undefined,
  };
}

function truncateName(text: string): string {
  // `slice` may split a surrogate pair. The encoding as UTF-8 then replaces the remaining half by U+FFFD, so that the
  // ledger gets valid text.
  return Buffer.from(text.slice(0, NAME_CHARS_MAX)).toString();
}
