import { createHash } from "node:crypto";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { EntryValue, NewEntry } from "../../ledger/port.ts";
import type { CallStatus, Tier } from "../port.ts";
import type { PlannedCall } from "./planned-call.ts";

/**
 * What the ledger keeps of a call. Its whole life can be read in order by `call`, in one of these ways; the
 * last entry is its end, and `result` without `dispatch` means that nothing reached the app.
 *
 *   requested result                               refused
 *   requested dispatch result                      run at once
 *   requested parked declined|expired              nobody wanted it; expired has the code: expired, restarted
 *   requested parked confirmed result              confirmed, and then not allowed any more
 *   requested parked confirmed dispatch result     confirmed and run
 *
 * The daemon may die, or the ledger fail, after any of them. `requested` alone was never begun. `confirmed`
 * and `dispatch` stand twice where the ledger took them and then failed: the call was confirmed again, and
 * the ledger ends the first dispatch itself, as `indeterminate`. After a restart a call that was under way
 * ends with a result of the code `interrupted`.
 *
 * In the open: ids, names, tiers, labels. Arguments and results are sealed, as their canonical text, since
 * entries hold no fractions.
 */

/** Larger results are sealed by their digest: a ledger is no store for an app's files. */
const SEALED_CHARS_MAX = 1024 * 1024;
/** Names from outside, which may be of nothing and of any length. */
const NAME_CHARS_MAX = 256;

export interface RequestedCall {
  readonly callId: number;
  readonly appId: string;
  readonly tool: string;
  readonly tiers: { readonly declared: Tier; readonly effective: Tier } | undefined;
  readonly chain: readonly string[];
  readonly caller: Caller;
  readonly actor: string | undefined;
  /** Canonical where they could be read, otherwise as they came. */
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

/** `tool` is the compensation. */
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

export function undoResultEntry(call: CallReference, result: ResultFields): NewEntry {
  return buildResultEntry("agent.undo.result", call, result);
}

/** Which call, of which tool. */
export type CallReference = { readonly call: number; readonly app: string; readonly tool: string };

export function toCallReference(call: PlannedCall): CallReference {
  return { call: call.callId, app: call.app.appId, tool: call.tool.name };
}

export interface ResultFields {
  /** skipped: of an undo that is never to be. */
  readonly status: CallStatus | "skipped";
  readonly code: string;
  /** Seq of the entry that this one ends; undefined: nothing was dispatched. */
  readonly dispatch?: number | undefined;
  /** What the app gave, as JSON text. */
  readonly text?: string | undefined;
}

function buildResultEntry(
  name: "agent.call.result" | "agent.undo.result",
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
  // Cut in the middle of a character it would be no text; UTF-8 puts a mark in its place.
  return Buffer.from(text.slice(0, NAME_CHARS_MAX)).toString();
}
