import { messageOf } from "../../../base/errors.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { AppManifest, ToolDeclaration, ToolRegistry } from "../manifest.ts";
import { chainFault, decide, decidingChain } from "../policy.ts";
import type { CallRequest, JsonObject } from "../port.ts";
import type { AgentRules } from "../rules.ts";
import { readArguments } from "./arguments-text.ts";
import type { RequestedCall } from "./entries.ts";
import { oneLine } from "./outcome.ts";
import { denied, failed, type PlannedCall, type Refusal } from "./planned-call.ts";
import type { Validators } from "./validators.ts";

/** What is known of a call that cannot run; enough for the ledger and for the answer. */
export interface RefusedCall {
  readonly refusal: Refusal;
  readonly requested: RequestedCall;
}

/** Of arguments that are no JSON: enough to see what somebody tried. */
const UNREADABLE_CHARS_MAX = 4_096;
/** Of a name that is told back. */
const NAME_CHARS_MAX = 80;

/** Looks at all of a call before anything happens, in the order that the documentation gives. */
export class Planner {
  readonly #registry: ToolRegistry;
  readonly #rules: () => AgentRules;
  readonly #validators: Validators;

  constructor(options: {
    readonly registry: ToolRegistry;
    readonly rules: () => AgentRules;
    readonly validators: Validators;
  }) {
    this.#registry = options.registry;
    this.#rules = options.rules;
    this.#validators = options.validators;
  }

  plan(callId: number, request: CallRequest, caller: Caller): PlannedCall | RefusedCall {
    const { appId } = request;
    const actor = actorOf(request);
    const tooLong = chainFault(request.provenance);
    const chain = chainOf(request, caller);
    const refused = (refusal: Refusal, tool?: ToolDeclaration, argsText?: string): RefusedCall => {
      const call = this.unplanned(callId, request, caller, refusal);
      const tiers = tool && { declared: tool.tier, effective: decide(tool.tier, chain).effective };
      const text = argsText ?? call.requested.argsText;
      return { refusal, requested: { ...call.requested, tiers, argsText: text } };
    };

    if (this.#rules().isPaused) return refused(pausedRefusal());
    const found = this.find(appId, request.tool);
    if ("code" in found) return refused(found);
    const { app, tool } = found;
    const forbidden = this.disabled(app, tool);
    if (forbidden) return refused(forbidden, tool);
    if (tooLong) {
      const errors = [{ path: "", message: tooLong }];
      return refused(failed("invalid_args", tooLong, { errors }), tool);
    }
    const read = readArguments(request.argsJson);
    if (typeof read === "string") return refused(failed("bad_json", read), tool);
    const invalid = this.invalid(tool, read.args);
    if (invalid) return refused(invalid, tool, read.text);
    const decision = decide(tool.tier, chain);
    return {
      callId,
      app,
      tool,
      args: read.args,
      argsText: read.text,
      chain,
      decision,
      caller,
      actor,
    };
  }

  /** Of a call that nobody has looked at. */
  unplanned(callId: number, request: CallRequest, caller: Caller, refusal: Refusal): RefusedCall {
    const { appId, tool } = request;
    const actor = actorOf(request);
    const argsText = request.argsJson.slice(0, UNREADABLE_CHARS_MAX);
    const chain = chainOf(request, caller);
    return {
      refusal,
      requested: { callId, appId, tool, tiers: undefined, chain, caller, actor, argsText },
    };
  }

  /** What is declared now under these names. */
  find(appId: string, name: string): { app: AppManifest; tool: ToolDeclaration } | Refusal {
    const app = this.#registry.find(appId);
    if (!app)
      return failed(
        "unknown_app",
        `there is no app ${named(appId)}; list the tools to see which there are`,
      );
    const tool = app.tools.find((one) => one.name === name);
    if (!tool) return failed("unknown_tool", `${app.name} declares no tool ${named(name)}`);
    return { app, tool };
  }

  /** What the user has forbidden. */
  disabled(app: AppManifest, tool: ToolDeclaration): Refusal | undefined {
    const { isPaused, disabledApps, disabledTools } = this.#rules();
    if (isPaused) return pausedRefusal();
    if (disabledApps.has(app.appId)) return denied("app_disabled", `${app.name} is disabled`);
    if (disabledTools.has(`${app.appId}/${tool.name}`))
      return denied("tool_disabled", `${tool.name} of ${app.name} is disabled`);
    return undefined;
  }

  invalid(tool: ToolDeclaration, args: JsonObject): Refusal | undefined {
    try {
      const errors = this.#validators.faults(tool, args);
      const [first] = errors;
      if (!first) return undefined;
      const more = errors.length > 1 ? `, and ${errors.length - 1} more` : "";
      const message = `${first.path || "the arguments"}: ${first.message}${more}`;
      return failed("invalid_args", message, { errors });
    } catch (error) {
      const message = `the arguments cannot be checked: ${messageOf(error)}`;
      return failed("invalid_args", message, { errors: [{ path: "", message }] });
    }
  }

  /** Why a call that was parked may not run any more. */
  changed(call: PlannedCall): Refusal | undefined {
    const now = this.find(call.app.appId, call.tool.name);
    if ("code" in now || now.tool.digest !== call.tool.digest)
      return denied(
        "manifest_changed",
        `${call.tool.name} of ${call.app.name} is not declared as it was when the call was asked for; ask for it again`,
      );
    return this.disabled(now.app, now.tool);
  }
}

/** A claim that is too long is not taken, and so not told either. */
function chainOf({ provenance }: CallRequest, caller: Caller): readonly string[] {
  return decidingChain(chainFault(provenance) ? [] : provenance, sandboxedApp(caller));
}

/** For people, so it has to fit on a line; nothing is decided by it. */
function actorOf({ actor }: CallRequest): string | undefined {
  return actor === undefined ? undefined : oneLine(actor);
}

function pausedRefusal(): Refusal {
  return denied("paused", "calls of tools are paused");
}

/** A name that nobody has checked, in one line: cut, and with everything written out that is not seen. */
function named(name: string): string {
  return JSON.stringify(name.length > NAME_CHARS_MAX ? `${name.slice(0, NAME_CHARS_MAX)}…` : name);
}
