import {
  filterTexts,
  getField,
  getNumberOrUndefined,
  getText,
  getTextOrUndefined,
  toItems,
  unexpectedAnswer,
} from "./json-fields.ts";

/** This module parses the parts of Agent1's JSON that the command line shows. All texts in that JSON are untrusted. */

/**
 * The longest hold time of a confirmation, for which the user must wait before the command line accepts the decision. A
 * longer hold time is reduced to this one.
 */
const HOLD_MS_MAX = 30_000;

export interface ToolRow {
  readonly appId: string;
  readonly name: string;
  readonly tier: string;
  readonly description: string;
  readonly isUndoable: boolean;
  /** True if the user has disabled the tool or its app. */
  readonly isDisabled: boolean;
}

/** The tools and vectors by which the companion ranks tools for a request. */
export interface DiscoverReport {
  readonly tools: number;
  /** The tools' vectors; undefined if only words count. */
  readonly vectors:
    | {
        readonly model: string;
        readonly embedded: number;
        readonly weight: number;
        readonly timeoutMs: number;
        /** The reason why the last request was ranked by words only. */
        readonly message: string | undefined;
      }
    | undefined;
}

/** The result of a call, or its state while it waits for a confirmation. */
export interface CallDetail {
  /** The status of the call: `ok`, `confirm`, or an error code. */
  readonly code: string;
  readonly message: string;
  readonly appId: string;
  readonly tool: string;
  /** The result of the tool; undefined if it returned none, whereas null is a result. */
  readonly result: unknown;
  readonly content: readonly unknown[];
  readonly errors: readonly {
    readonly path: string;
    readonly message: string;
    /**
     * The JSON types that the schema allows for this argument; empty if the argument violates another rule than the one
     * for its type.
     */
    readonly types: readonly string[];
  }[];
  readonly isUndoable: boolean;
  /** True if it is unknown whether the failed call has taken effect. */
  readonly isOutcomeUnknown: boolean;
  readonly expiresAt: string | undefined;
  /**
   * The digest of the changed tool definition, with which ApproveTool approves it; undefined unless the code is
   * `manifest_changed`.
   */
  readonly digest: string | undefined;
  /** True if the call was already decided before this request to confirm it, so that this result is the earlier one. */
  readonly isReplayed: boolean;
}

/** The information from which the user decides about a call. */
export interface ConfirmationSpec {
  readonly appId: string;
  readonly appName: string;
  readonly tool: string;
  readonly title: string;
  readonly description: string;
  readonly declaredTier: string;
  readonly effectiveTier: string;
  readonly chain: readonly string[];
  readonly diff: readonly DiffRow[];
  readonly undoTool: string | undefined;
  readonly callerApp: string | undefined;
  readonly isCallerVerified: boolean;
  readonly actor: string | undefined;
  readonly expiresAt: string | undefined;
  readonly holdMs: number;
}

export interface ParkedCall {
  readonly callId: bigint;
  readonly spec: ConfirmationSpec;
}

export interface DiffRow {
  readonly path: string;
  readonly label: string;
  readonly value: unknown;
}

export interface UndoReport {
  readonly status: "undone" | "failed" | "skipped" | "nothing";
  readonly callId: number | undefined;
  readonly appId: string;
  readonly tool: string;
  readonly compensation: { readonly tool: string; readonly args: unknown } | undefined;
  readonly error:
    | { readonly code: string; readonly message: string; readonly isOutcomeUnknown: boolean }
    | undefined;
  readonly attempts: number;
  readonly remaining: number;
  /** The calls whose undo has an unknown outcome. */
  readonly unknownCallIds: readonly number[];
}

export function parseToolRows(document: unknown): readonly ToolRow[] {
  if (!Array.isArray(document)) throw unexpectedAnswer(undefined);
  return document.map((tool: unknown) => ({
    appId: getText(tool, "app_id"),
    name: getText(tool, "name"),
    tier: getText(tool, "tier"),
    description: getText(tool, "description"),
    isUndoable: getField(tool, "undoable") === true,
    isDisabled: getField(tool, "disabled") === true,
  }));
}

export function parseDiscoverReport(document: unknown): DiscoverReport {
  const vectors = getField(document, "vectors");
  return {
    tools: getNumberOrUndefined(document, "tools") ?? 0,
    vectors:
      typeof vectors === "object" && vectors !== null
        ? {
            model: getText(vectors, "model"),
            embedded: getNumberOrUndefined(vectors, "embedded") ?? 0,
            weight: getNumberOrUndefined(vectors, "weight") ?? 0,
            timeoutMs: getNumberOrUndefined(vectors, "timeout_ms") ?? 0,
            message: getTextOrUndefined(vectors, "message"),
          }
        : undefined,
  };
}

export function parseCallDetail(document: unknown): CallDetail {
  return {
    code: getText(document, "code"),
    message: getText(document, "message"),
    appId: getText(document, "app_id"),
    tool: getText(document, "tool"),
    result: getField(document, "result"),
    content: toItems(getField(document, "content")),
    errors: toItems(getField(document, "errors")).map((error) => ({
      path: getText(error, "path"),
      message: getText(error, "message"),
      types: filterTexts(getField(error, "types")),
    })),
    isUndoable: getField(document, "undoable") === true,
    isOutcomeUnknown: getField(document, "outcome") === "unknown",
    expiresAt: getTextOrUndefined(document, "expires_at"),
    digest: getTextOrUndefined(document, "digest"),
    isReplayed: getField(document, "replayed") === true,
  };
}

export function parseConfirmationSpec(document: unknown): ConfirmationSpec {
  const tiers = getField(document, "tiers");
  const caller = getField(document, "caller");
  return {
    appId: getText(document, "app_id"),
    appName: getText(document, "app_name"),
    tool: getText(document, "tool"),
    title: getText(document, "title"),
    description: getText(document, "description"),
    declaredTier: getText(tiers, "declared"),
    effectiveTier: getText(tiers, "effective"),
    chain: filterTexts(getField(document, "chain")),
    diff: parseDiffRows(document),
    undoTool: getTextOrUndefined(document, "undo"),
    callerApp: getTextOrUndefined(caller, "app"),
    isCallerVerified: getField(caller, "verified") === true,
    actor: getTextOrUndefined(caller, "actor"),
    expiresAt: getTextOrUndefined(document, "expires_at"),
    holdMs: Math.min(Math.max(getNumberOrUndefined(document, "hold_ms") ?? 0, 0), HOLD_MS_MAX),
  };
}

export function parseParkedCalls(document: unknown): readonly ParkedCall[] {
  if (!Array.isArray(document)) throw unexpectedAnswer(undefined);
  return document.map((spec: unknown) => {
    const id = getNumberOrUndefined(spec, "call_id");
    if (id === undefined || !Number.isSafeInteger(id)) throw unexpectedAnswer(undefined);
    return { callId: BigInt(id), spec: parseConfirmationSpec(spec) };
  });
}

/**
 * Parses the rows in which a confirmation shows the arguments of its call. Adds a row for each argument that has none,
 * so that the user sees all arguments.
 */
function parseDiffRows(document: unknown): readonly DiffRow[] {
  const rows = toItems(getField(document, "diff")).map((row) => ({
    path: getText(row, "path"),
    label: getText(row, "label"),
    value: getField(row, "value"),
  }));
  const args = getField(document, "args");
  if (typeof args !== "object" || args === null) return rows;
  const shownNames = new Set(rows.map(({ path }) => path.split("/")[1] ?? ""));
  const missingRows = Object.entries(args)
    .filter(([name]) => !shownNames.has(escapePointerToken(name)))
    .map(([name, value]: [string, unknown]) => ({
      path: `/${escapePointerToken(name)}`,
      label: name,
      value,
    }));
  return [...rows, ...missingRows];
}

function escapePointerToken(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

export function parseUndoReport(document: unknown): UndoReport {
  const status = getField(document, "status");
  if (status !== "undone" && status !== "failed" && status !== "skipped" && status !== "nothing")
    throw unexpectedAnswer(undefined);
  const compensation = getField(document, "compensation");
  const error = getField(document, "error");
  const tool = getTextOrUndefined(compensation, "tool");
  const code = getTextOrUndefined(error, "code");
  return {
    status,
    callId: getNumberOrUndefined(document, "call_id"),
    appId: getText(document, "app_id"),
    tool: getText(document, "tool"),
    compensation: tool === undefined ? undefined : { tool, args: getField(compensation, "args") },
    error:
      code === undefined
        ? undefined
        : {
            code,
            message: getText(error, "message"),
            isOutcomeUnknown: getField(error, "outcome") === "unknown",
          },
    attempts: getNumberOrUndefined(document, "attempts") ?? 0,
    remaining: getNumberOrUndefined(document, "remaining") ?? 0,
    unknownCallIds: toItems(getField(document, "unknown")).filter((id) => typeof id === "number"),
  };
}
