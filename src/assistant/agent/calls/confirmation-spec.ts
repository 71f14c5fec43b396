import { timestamp } from "../../../base/clock.ts";
import { isObject } from "../../../base/json.ts";
import { sandboxedApp } from "../../caller.ts";
import { pointerBelow } from "../manifests/json-pointer.ts";
import type { ConfirmationSpec, DiffRow, JsonObject } from "../port.ts";
import type { PlannedCall } from "./planned-call.ts";

/**
 * Builds the description that is shown to the user for the confirmation of a call. `args` are exactly the arguments
 * that would be sent to the app.
 */
export function buildConfirmationSpec(call: PlannedCall, expiresAtMs: number): ConfirmationSpec {
  return {
    v: 1,
    call_id: call.callId,
    app_id: call.app.appId,
    app_name: call.app.name,
    tool: call.tool.name,
    title: call.tool.title,
    description: call.tool.description,
    args: call.args,
    tiers: { declared: call.tool.tier, effective: call.decision.effective },
    chain: call.chain,
    diff: buildDiffRows(call.tool.inputSchema, call.args),
    undo: call.tool.undo?.tool ?? null,
    caller: {
      app: call.caller.app?.id ?? null,
      verified: sandboxedApp(call.caller) !== undefined,
      actor: call.actor ?? null,
    },
    expires_at: timestamp(expiresAtMs),
    hold_ms: call.decision.holdMs,
    digest: call.tool.digest,
  };
}

/** Builds one row for each argument: first the arguments that the schema names, in its order, then all others. */
export function buildDiffRows(schema: JsonObject, args: JsonObject): DiffRow[] {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const named = Object.keys(properties).filter((name) => Object.hasOwn(args, name));
  const others = Object.keys(args).filter((name) => !Object.hasOwn(properties, name));
  return [...named, ...others].map((name) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const title = isObject(property) ? property["title"] : undefined;
    const value = args[name];
    return {
      path: pointerBelow("", name),
      label: typeof title === "string" && title !== "" ? title : name,
      type: getJsonType(value),
      value,
    };
  });
}

function getJsonType(value: unknown): DiffRow["type"] {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  const type = typeof value;
  return type === "string" || type === "number" || type === "boolean" ? type : "object";
}
