import type { Caller } from "../../caller.ts";
import type { PolicyDecision } from "../policy.ts";
import type {
  ArgumentError,
  CallDetail,
  CallResult,
  DeniedCode,
  FailedCode,
  JsonObject,
  LedgerReference,
} from "../port.ts";
import type { AppManifest, ToolDeclaration } from "../tool-manifest.ts";

/** A validated call that can run. The object is never changed after its creation. */
export interface PlannedCall {
  readonly callId: number;
  readonly app: AppManifest;
  /**
   * The declaration of the tool at the time of the request. If the declaration changes while the call is parked, the
   * call is refused.
   */
  readonly tool: ToolDeclaration;
  readonly args: JsonObject;
  /** `args` as canonical JSON text. */
  readonly argsText: string;
  readonly chain: readonly string[];
  readonly decision: PolicyDecision;
  readonly caller: Caller;
  readonly actor: string | undefined;
}

/** The reason why a call does not run. */
export interface CallRefusal {
  readonly status: "failed" | "denied";
  readonly code: FailedCode | DeniedCode;
  /** A message for the user in one line. */
  readonly message: string;
  /** The call was sent to the app, and it is unknown whether it has taken effect. */
  readonly outcome?: "unknown";
  readonly errors?: readonly ArgumentError[];
  /** The digest that ApproveTool accepts; only for the code `manifest_changed`. */
  readonly digest?: string;
}

export function failedRefusal(
  code: FailedCode,
  message: string,
  more: { readonly errors?: readonly ArgumentError[] } = {},
): CallRefusal {
  return { status: "failed", code, message, ...more };
}

export function deniedRefusal(
  code: DeniedCode,
  message: string,
  more: { readonly digest?: string } = {},
): CallRefusal {
  return { status: "denied", code, message, ...more };
}

/** Builds the fields of CallDetail that are known before the call has a result. */
export function buildDetailBase(call: PlannedCall) {
  return {
    v: 1,
    app_id: call.app.appId,
    tool: call.tool.name,
    tier: call.tool.tier,
    effective_tier: call.decision.effective,
    chain: call.chain,
    undoable: call.tool.undo !== undefined,
  } as const;
}

/** Builds the result of a refused or failed call. `ledger` is left out if no ledger entry could be written. */
export function toRefusedResult(
  call: PlannedCall,
  refusal: CallRefusal,
  ledger?: LedgerReference,
): CallResult {
  const { status, ...rest } = refusal;
  const detail: CallDetail = {
    ...buildDetailBase(call),
    undoable: false,
    ...rest,
    ...(ledger ? { ledger } : {}),
  };
  return { status, detail };
}

export function markReplayed(end: CallResult): CallResult {
  return { status: end.status, detail: { ...end.detail, replayed: true } };
}
