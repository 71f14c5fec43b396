import { getErrorMessage } from "../../../base/errors.ts";
import { type Caller, sandboxedApp } from "../../caller.ts";
import type { AgentRules } from "../agent-rules.ts";
import { decideCall, extendChain, findChainProblem } from "../policy.ts";
import type { CallRequest, JsonObject } from "../port.ts";
import type { AppManifest, ToolDeclaration, ToolRegistry } from "../tool-manifest.ts";
import type { RequestedCall } from "./call-entries.ts";
import { toSingleLine } from "./call-outcome.ts";
import { parseArguments } from "./parse-arguments.ts";
import {
  type CallRefusal,
  deniedRefusal,
  failedRefusal,
  type PlannedCall,
} from "./planned-call.ts";
import type { TierHistory } from "./tier-history.ts";
import type { ValidatorCache } from "./validator-cache.ts";

/** A refused call: the reason of the refusal, and the request as the ledger and the answer describe it. */
export interface RefusedCall {
  readonly refusal: CallRefusal;
  readonly requested: RequestedCall;
}

/** Arguments that are not valid JSON are written to the ledger up to this length. */
const UNREADABLE_CHARS_MAX = 4_096;
/** Longest name that an error message repeats. */
const NAME_CHARS_MAX = 80;

interface CallPlannerOptions {
  readonly registry: ToolRegistry;
  readonly rules: () => AgentRules;
  readonly validators: ValidatorCache;
  readonly tiers: Pick<TierHistory, "check">;
}

/** Validates a call before it has any effect. The checks run in the order that docs/tools.md lists. */
export class CallPlanner {
  readonly #options: CallPlannerOptions;

  constructor(options: CallPlannerOptions) {
    this.#options = options;
  }

  plan(callId: number, request: CallRequest, caller: Caller): PlannedCall | RefusedCall {
    const { appId } = request;
    const actor = sanitizeActor(request);
    const chainProblem = findChainProblem(request.provenance);
    const chain = buildChain(request, caller);
    const refused = (
      refusal: CallRefusal,
      tool?: ToolDeclaration,
      argsText?: string,
    ): RefusedCall => {
      const call = this.refuseUnplanned(callId, request, caller, refusal);
      const tiers = tool && {
        declared: tool.tier,
        effective: decideCall(tool.tier, chain).effective,
      };
      const text = argsText ?? call.requested.argsText;
      return { refusal, requested: { ...call.requested, tiers, argsText: text } };
    };

    const rules = this.#options.rules();
    if (rules.isPaused) return refused(pausedRefusal());
    const found = this.findTool(appId, request.tool);
    if ("code" in found) return refused(found);
    const { app, tool } = found;
    const forbidden = this.checkDisabled(app, tool, rules) ?? this.#options.tiers.check(app, tool);
    if (forbidden) return refused(forbidden, tool);
    if (chainProblem) {
      const errors = [{ path: "", message: chainProblem }];
      return refused(failedRefusal("invalid_args", chainProblem, { errors }), tool);
    }
    const read = parseArguments(request.argsJson);
    if (typeof read === "string") return refused(failedRefusal("bad_json", read), tool);
    const invalid = this.checkArguments(tool, read.args);
    if (invalid) return refused(invalid, tool, read.text);
    const decision = decideCall(tool.tier, chain);
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

  /** Builds the result for a call that is refused before its arguments are validated. */
  refuseUnplanned(
    callId: number,
    request: CallRequest,
    caller: Caller,
    refusal: CallRefusal,
  ): RefusedCall {
    const { appId, tool } = request;
    const actor = sanitizeActor(request);
    const argsText = request.argsJson.slice(0, UNREADABLE_CHARS_MAX);
    const chain = buildChain(request, caller);
    return {
      refusal,
      requested: { callId, appId, tool, tiers: undefined, chain, caller, actor, argsText },
    };
  }

  /** Returns the current declaration of a tool. */
  findTool(appId: string, name: string): { app: AppManifest; tool: ToolDeclaration } | CallRefusal {
    const app = this.#options.registry.find(appId);
    if (!app)
      return failedRefusal(
        "unknown_app",
        `there is no app ${quoteName(appId)}; list the tools to see which there are`,
      );
    const tool = app.tools.find((one) => one.name === name);
    if (!tool)
      return failedRefusal("unknown_tool", `${app.name} declares no tool ${quoteName(name)}`);
    return { app, tool };
  }

  /** Returns a refusal if the user has paused or disabled the tool. */
  checkDisabled(
    app: AppManifest,
    tool: ToolDeclaration,
    { isPaused, disabledApps, disabledTools } = this.#options.rules(),
  ): CallRefusal | undefined {
    if (isPaused) return pausedRefusal();
    if (disabledApps.has(app.appId))
      return deniedRefusal("app_disabled", `${app.name} is disabled`);
    if (disabledTools.has(`${app.appId}/${tool.name}`))
      return deniedRefusal("tool_disabled", `${tool.name} of ${app.name} is disabled`);
    return undefined;
  }

  checkArguments(tool: ToolDeclaration, args: JsonObject): CallRefusal | undefined {
    try {
      const errors = this.#options.validators.validate(tool, args);
      const [first] = errors;
      if (!first) return undefined;
      const more = errors.length > 1 ? `, and ${errors.length - 1} more` : "";
      const message = `${first.path || "the arguments"}: ${first.message}${more}`;
      return failedRefusal("invalid_args", message, { errors });
    } catch (error) {
      const message = `the arguments cannot be checked: ${getErrorMessage(error)}`;
      return failedRefusal("invalid_args", message, { errors: [{ path: "", message }] });
    }
  }

  /**
   * Returns a refusal if the tool of a parked call has been disabled, or if its declaration has changed since the
   * request.
   */
  checkUnchanged(call: PlannedCall): CallRefusal | undefined {
    const now = this.findTool(call.app.appId, call.tool.name);
    if ("code" in now || now.tool.digest !== call.tool.digest)
      return deniedRefusal(
        "manifest_changed",
        `the declaration of ${call.tool.name} of ${call.app.name} has changed since the call was requested; request it again`,
      );
    return this.checkDisabled(now.app, now.tool);
  }
}

/**
 * Returns the provenance chain of a call. A claimed chain that is too long is left out, because such a call is
 * refused anyway.
 */
function buildChain({ provenance }: CallRequest, caller: Caller): readonly string[] {
  return extendChain(findChainProblem(provenance) ? [] : provenance, sandboxedApp(caller));
}

/** Cuts the actor to one line. The actor is only displayed, and no decision depends on it. */
function sanitizeActor({ actor }: CallRequest): string | undefined {
  return actor === undefined ? undefined : toSingleLine(actor);
}

function pausedRefusal(): CallRefusal {
  return deniedRefusal("paused", "tool calls are paused");
}

/** Quotes a name that was not checked before: in one line, cut to its length limit, with control characters escaped. */
function quoteName(name: string): string {
  return JSON.stringify(name.length > NAME_CHARS_MAX ? `${name.slice(0, NAME_CHARS_MAX)}…` : name);
}
