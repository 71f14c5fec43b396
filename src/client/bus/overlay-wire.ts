import type { BusVariant } from "../../dbus/port.ts";
import { type ConfirmationSpec, parseConfirmationSpec } from "./agent-wire.ts";
import {
  filterTexts,
  getField,
  getNumberOrUndefined,
  getText,
  getTextOrUndefined,
  toItems,
  unexpectedAnswer,
} from "./json-fields.ts";

/**
 * This module parses the parts of Overlay1's JSON that the command line shows. All texts in that JSON are untrusted.
 */

export const finishedStatuses = ["completed", "failed", "cancelled", "denied"] as const;
export type FinishedStatus = (typeof finishedStatuses)[number];

export interface SourceRow {
  readonly source: string;
  readonly title: string;
  readonly uri: string;
}

export interface TurnMeta {
  /** `local` or `remote`, the kind of model that answers. */
  readonly route: string;
  /** The features that the query requested and that are not available. */
  readonly unavailable: readonly string[];
  readonly sources: readonly SourceRow[];
}

/** A question to the user: whether a tool may be called, or whether data may be sent to a provider. */
export type OverlayQuestion = (
  | { readonly kind: "call"; readonly callId: bigint; readonly spec: ConfirmationSpec }
  | ConsentQuestion
  /**
   * A question in a format that this client does not know and therefore cannot show. The client must decline the
   * question.
   */
  | { readonly kind: "unknown" }
) & { readonly number: number | undefined };

export interface ConsentQuestion {
  readonly kind: "consent";
  readonly provider: string;
  /** The provider's address; empty if the companion did not send it. */
  readonly address: string;
  readonly model: string;
  readonly scopes: readonly string[];
  readonly sources: readonly SourceRow[];
  /** The tool calls whose results would be sent to the provider. */
  readonly calls: readonly CallRow[];
  readonly expiresAt: string | undefined;
}

export interface TurnResult {
  /** The result of the query: `ok`, or the code of the error that ended it. */
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

export function parseTurnMeta(document: unknown): TurnMeta {
  return {
    route: getText(document, "route"),
    unavailable: filterTexts(getField(document, "unavailable")),
    sources: parseSourceRows(getField(document, "sources")),
  };
}

export function parseOverlayQuestion(document: unknown): OverlayQuestion {
  const kind = getField(document, "kind");
  const number = parseQuestionNumber(document);
  if (kind === "call") {
    const id = getNumberOrUndefined(document, "call_id");
    if (id === undefined || !Number.isSafeInteger(id)) return { kind: "unknown", number };
    return { kind, number, callId: BigInt(id), spec: parseConfirmationSpec(document) };
  }
  if (kind !== "consent") return { kind: "unknown", number };
  return {
    kind,
    number,
    provider: getText(document, "provider"),
    address: getText(document, "address"),
    model: getText(document, "model"),
    scopes: filterTexts(getField(document, "scopes")),
    sources: parseSourceRows(getField(document, "sources")),
    calls: parseCallRows(getField(document, "calls")),
    expiresAt: getTextOrUndefined(document, "expires_at"),
  };
}

export function parseTurnEnd(document: unknown): TurnResult {
  const usage = getField(document, "usage");
  const prompt = getNumberOrUndefined(usage, "prompt_tokens");
  const completion = getNumberOrUndefined(usage, "completion_tokens");
  const total = getNumberOrUndefined(usage, "total_tokens");
  return {
    code: getText(document, "code"),
    message: getText(document, "message"),
    usage:
      prompt === undefined || completion === undefined || total === undefined
        ? undefined
        : { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total },
    finishReason: getText(document, "finish_reason"),
    model: getTextOrUndefined(document, "model"),
    calls: parseCallRows(getField(document, "calls")),
  };
}

/** Parses the models in the result of GetStatus. Throws `assistant_unreachable` if the result is invalid. */
export function parseOverlayModels(status: ReadonlyMap<string, BusVariant>): {
  /** The name of the local model that is used by default; empty if there is none. */
  readonly standard: string;
  /** The reason why the default local model is not known; empty if there is no such reason. */
  readonly standardError: string;
  /** The providers that have a credential. */
  readonly providers: readonly string[];
} {
  const standard = status.get("model")?.value;
  if (typeof standard !== "string") throw unexpectedAnswer(undefined);
  // A companion of an older version does not send the reason.
  const reason = status.get("model_error")?.value;
  const standardError = typeof reason === "string" ? reason : "";
  return { standard, standardError, providers: filterTexts(status.get("providers")?.value) };
}

/** Returns the number of a question, or undefined if it is not valid as the D-Bus type `u`. */
function parseQuestionNumber(document: unknown): number | undefined {
  const number = getNumberOrUndefined(document, "question");
  return Number.isInteger(number) && (number ?? -1) >= 0 && (number ?? 0) < 2 ** 32
    ? number
    : undefined;
}

function parseCallRows(value: unknown): readonly CallRow[] {
  return toItems(value).map((call) => ({
    appId: getText(call, "app_id"),
    tool: getText(call, "tool"),
    status: getText(call, "status"),
  }));
}

function parseSourceRows(value: unknown): readonly SourceRow[] {
  return toItems(value).map((source) => ({
    source: getText(source, "source"),
    title: getText(source, "title"),
    uri: getText(source, "uri"),
  }));
}
