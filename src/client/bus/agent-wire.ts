import {
  field,
  itemsOf,
  notTheCompanion,
  numberOrUndefined,
  textField,
  textOrUndefined,
  textsOf,
} from "./json.ts";

/** The JSON of Agent1, as far as the command line shows it. Every text in it is somebody else's. */

/** Longer than this nobody is kept from answering. */
const HOLD_MS_MAX = 30_000;

export interface ToolRow {
  readonly appId: string;
  readonly name: string;
  readonly tier: string;
  readonly description: string;
  readonly isUndoable: boolean;
}

/** How a call ended, or that it waits. */
export interface CallDetail {
  /** `ok`, `confirm`, or why not. */
  readonly code: string;
  readonly message: string;
  readonly appId: string;
  readonly tool: string;
  /** Undefined where there is none; null is a result. */
  readonly result: unknown;
  readonly content: readonly unknown[];
  readonly errors: readonly { readonly path: string; readonly message: string }[];
  readonly isUndoable: boolean;
  readonly expiresAt: string | undefined;
  /** What ApproveTool takes. */
  readonly digest: string | undefined;
  /** Somebody else had decided already. */
  readonly isReplayed: boolean;
}

/** What a person needs to know to decide about a call. */
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

export interface WaitingCall {
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
  readonly error: { readonly code: string; readonly message: string } | undefined;
  readonly attempts: number;
  readonly remaining: number;
}

export function toolRows(document: unknown): readonly ToolRow[] {
  if (!Array.isArray(document)) throw notTheCompanion(undefined);
  return document.map((tool: unknown) => ({
    appId: textField(tool, "app_id"),
    name: textField(tool, "name"),
    tier: textField(tool, "tier"),
    description: textField(tool, "description"),
    isUndoable: field(tool, "undoable") === true,
  }));
}

export function callDetail(document: unknown): CallDetail {
  return {
    code: textField(document, "code"),
    message: textField(document, "message"),
    appId: textField(document, "app_id"),
    tool: textField(document, "tool"),
    result: field(document, "result"),
    content: itemsOf(field(document, "content")),
    errors: itemsOf(field(document, "errors")).map((error) => ({
      path: textField(error, "path"),
      message: textField(error, "message"),
    })),
    isUndoable: field(document, "undoable") === true,
    expiresAt: textOrUndefined(document, "expires_at"),
    digest: textOrUndefined(document, "digest"),
    isReplayed: field(document, "replayed") === true,
  };
}

export function confirmationSpec(document: unknown): ConfirmationSpec {
  const tiers = field(document, "tiers");
  const caller = field(document, "caller");
  return {
    appId: textField(document, "app_id"),
    appName: textField(document, "app_name"),
    tool: textField(document, "tool"),
    title: textField(document, "title"),
    description: textField(document, "description"),
    declaredTier: textField(tiers, "declared"),
    effectiveTier: textField(tiers, "effective"),
    chain: textsOf(field(document, "chain")),
    diff: diffRows(document),
    undoTool: textOrUndefined(document, "undo"),
    callerApp: textOrUndefined(caller, "app"),
    isCallerVerified: field(caller, "verified") === true,
    actor: textOrUndefined(caller, "actor"),
    expiresAt: textOrUndefined(document, "expires_at"),
    holdMs: Math.min(Math.max(numberOrUndefined(document, "hold_ms") ?? 0, 0), HOLD_MS_MAX),
  };
}

export function waitingCalls(document: unknown): readonly WaitingCall[] {
  if (!Array.isArray(document)) throw notTheCompanion(undefined);
  return document.map((spec: unknown) => {
    const id = numberOrUndefined(spec, "call_id");
    if (id === undefined || !Number.isSafeInteger(id)) throw notTheCompanion(undefined);
    return { callId: BigInt(id), spec: confirmationSpec(spec) };
  });
}

/** What is run are the arguments: whatever of them has no row of its own gets one. */
function diffRows(document: unknown): readonly DiffRow[] {
  const rows = itemsOf(field(document, "diff")).map((row) => ({
    path: textField(row, "path"),
    label: textField(row, "label"),
    value: field(row, "value"),
  }));
  const args = field(document, "args");
  if (typeof args !== "object" || args === null) return rows;
  const told = new Set(rows.map(({ path }) => path.split("/")[1] ?? ""));
  const untold = Object.entries(args)
    .filter(([name]) => !told.has(pointerToken(name)))
    .map(([name, value]: [string, unknown]) => ({
      path: `/${pointerToken(name)}`,
      label: name,
      value,
    }));
  return [...rows, ...untold];
}

function pointerToken(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

export function undoReport(document: unknown): UndoReport {
  const status = field(document, "status");
  if (status !== "undone" && status !== "failed" && status !== "skipped" && status !== "nothing")
    throw notTheCompanion(undefined);
  const compensation = field(document, "compensation");
  const error = field(document, "error");
  const tool = textOrUndefined(compensation, "tool");
  const code = textOrUndefined(error, "code");
  return {
    status,
    callId: numberOrUndefined(document, "call_id"),
    appId: textField(document, "app_id"),
    tool: textField(document, "tool"),
    compensation: tool === undefined ? undefined : { tool, args: field(compensation, "args") },
    error: code === undefined ? undefined : { code, message: textField(error, "message") },
    attempts: numberOrUndefined(document, "attempts") ?? 0,
    remaining: numberOrUndefined(document, "remaining") ?? 0,
  };
}
