import type { BusVariant } from "../../dbus/port.ts";
import { type ConfirmationSpec, confirmationSpec } from "./agent-wire.ts";
import {
  field,
  itemsOf,
  notTheCompanion,
  numberOrUndefined,
  textField,
  textOrUndefined,
  textsOf,
} from "./json.ts";

/** The JSON of Overlay1, as far as the command line shows it. Every text in it is somebody else's. */

export const finishedStatuses = ["completed", "failed", "cancelled", "denied"] as const;
export type FinishedStatus = (typeof finishedStatuses)[number];

export interface SourceRow {
  readonly source: string;
  readonly title: string;
  readonly uri: string;
}

export interface TurnMeta {
  /** local, remote. */
  readonly route: string;
  /** What was asked for and is not there. */
  readonly unavailable: readonly string[];
  readonly sources: readonly SourceRow[];
}

/** What a query asks a person: whether a tool may be called, or whether something may leave the machine. */
export type OverlayQuestion = (
  | { readonly kind: "call"; readonly callId: bigint; readonly spec: ConfirmationSpec }
  | ConsentQuestion
  /** Of another version: nobody can say yes to what he cannot read. */
  | { readonly kind: "unknown" }
) & { readonly number: number | undefined };

export interface ConsentQuestion {
  readonly kind: "consent";
  readonly provider: string;
  /** "" where the companion does not say. */
  readonly address: string;
  readonly model: string;
  readonly scopes: readonly string[];
  readonly sources: readonly SourceRow[];
  /** Tools whose results it holds. */
  readonly calls: readonly CallRow[];
  readonly expiresAt: string | undefined;
}

export interface TurnEnd {
  /** `ok`, or why it ended. */
  readonly code: string;
  readonly message: string;
  readonly usage:
    | {
        readonly prompt_tokens: number;
        readonly completion_tokens: number;
        readonly total_tokens: number;
      }
    | undefined;
  readonly finishReason: string;
  readonly model: string | undefined;
  readonly calls: readonly CallRow[];
}

export interface CallRow {
  readonly appId: string;
  readonly tool: string;
  readonly status: string;
}

export function turnMeta(document: unknown): TurnMeta {
  return {
    route: textField(document, "route"),
    unavailable: textsOf(field(document, "unavailable")),
    sources: sourceRows(field(document, "sources")),
  };
}

export function overlayQuestion(document: unknown): OverlayQuestion {
  const kind = field(document, "kind");
  const number = questionNumber(document);
  if (kind === "call") {
    const id = numberOrUndefined(document, "call_id");
    if (id === undefined || !Number.isSafeInteger(id)) return { kind: "unknown", number };
    return { kind, number, callId: BigInt(id), spec: confirmationSpec(document) };
  }
  if (kind !== "consent") return { kind: "unknown", number };
  return {
    kind,
    number,
    provider: textField(document, "provider"),
    address: textField(document, "address"),
    model: textField(document, "model"),
    scopes: textsOf(field(document, "scopes")),
    sources: sourceRows(field(document, "sources")),
    calls: callRows(field(document, "calls")),
    expiresAt: textOrUndefined(document, "expires_at"),
  };
}

export function turnEnd(document: unknown): TurnEnd {
  const usage = field(document, "usage");
  const prompt = numberOrUndefined(usage, "prompt_tokens");
  const completion = numberOrUndefined(usage, "completion_tokens");
  const total = numberOrUndefined(usage, "total_tokens");
  return {
    code: textField(document, "code"),
    message: textField(document, "message"),
    usage:
      prompt === undefined || completion === undefined || total === undefined
        ? undefined
        : { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total },
    finishReason: textField(document, "finish_reason"),
    model: textOrUndefined(document, "model"),
    calls: callRows(field(document, "calls")),
  };
}

/** Of GetStatus. Throws `assistant_unreachable` for what is none. */
export function overlayModels(status: ReadonlyMap<string, BusVariant>): {
  /** "" where there is none. */
  readonly standard: string;
  /** Providers that have a credential. */
  readonly providers: readonly string[];
} {
  const standard = status.get("model")?.value;
  if (typeof standard !== "string") throw notTheCompanion(undefined);
  return { standard, providers: textsOf(status.get("providers")?.value) };
}

/** As the bus takes it: a u. */
function questionNumber(document: unknown): number | undefined {
  const number = numberOrUndefined(document, "question");
  return Number.isInteger(number) && (number ?? -1) >= 0 && (number ?? 0) < 2 ** 32
    ? number
    : undefined;
}

function callRows(value: unknown): readonly CallRow[] {
  return itemsOf(value).map((call) => ({
    appId: textField(call, "app_id"),
    tool: textField(call, "tool"),
    status: textField(call, "status"),
  }));
}

function sourceRows(value: unknown): readonly SourceRow[] {
  return itemsOf(value).map((source) => ({
    source: textField(source, "source"),
    title: textField(source, "title"),
    uri: textField(source, "uri"),
  }));
}
