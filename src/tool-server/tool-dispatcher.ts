import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import { type BerthToolName, berthToolNames, berthTools } from "../base/berth-tool-manifest.ts";
import { BerthError } from "../base/errors.ts";
import { describeFailure } from "../client/rest/failure-text.ts";
import type { AssistantToken } from "./assistant-token.ts";
import { deleteAppTool } from "./delete-app-tool.ts";
import { deployAppTool, rollBackAppTool } from "./deploy-app-tools.ts";
import { appLogsTool, describeAppTool, listAppsTool } from "./read-app-tools.ts";
import { restoreAppTool } from "./restore-app-tool.ts";
import { restartAppTool, setAppRunningTool, startAppTool, stopAppTool } from "./run-app-tools.ts";
import { sanitizeText } from "./sanitize-value.ts";
import type { ToolArguments, ToolContext, ToolOutput } from "./tool-context.ts";
import type { UndoRecords } from "./undo-records.ts";

type Handler = (args: ToolArguments, context: ToolContext) => Promise<ToolOutput>;

const handlers: Readonly<Record<BerthToolName, Handler>> = {
  list_apps: listAppsTool,
  describe_app: describeAppTool,
  app_logs: appLogsTool,
  deploy_app: deployAppTool,
  start_app: startAppTool,
  stop_app: stopAppTool,
  restart_app: restartAppTool,
  rollback_app: rollBackAppTool,
  delete_app: deleteAppTool,
  set_app_running: setAppRunningTool,
  restore_app: restoreAppTool,
};

const ERROR_CHARS_MAX = 2_000;

/** The members of an MCP result that Berth's tools use. */
export interface CallResult {
  readonly content: { readonly type: "text"; readonly text: string }[];
  readonly structuredContent: Record<string, unknown>;
  readonly isError?: true;
}

interface ToolDispatcherOptions {
  readonly token: AssistantToken;
  readonly records: UndoRecords;
  /** The time that a call may wait for an app. */
  readonly waitMs: number;
  /** Receives internal errors. Callers do not get their details. */
  readonly onUnexpected: (error: unknown) => void;
}

/** Calls tools by name. Converts an error to a result with a message and a hint. */
export class ToolDispatcher {
  readonly #options: ToolDispatcherOptions;
  readonly #validators: ReadonlyMap<BerthToolName, ValidateFunction>;

  constructor(options: ToolDispatcherOptions) {
    this.#options = options;
    const ajv = new Ajv2020({ allErrors: true, meta: false, validateSchema: false });
    this.#validators = new Map(
      berthToolNames.map((name) => [name, ajv.compile(berthTools[name].input_schema)]),
    );
  }

  async call(tool: string, args: ToolArguments, signal: AbortSignal): Promise<CallResult> {
    const { token, records, waitMs, onUnexpected } = this.#options;
    const endMs = Date.now() + waitMs;
    try {
      const name = this.#validate(tool, args);
      const client = await token.connect();
      const context = {
        client,
        records,
        remainingMs: () => Math.max(0, endMs - Date.now()),
        signal,
      };
      const { text, structured } = await handlers[name](args, context);
      return { content: [{ type: "text", text }], structuredContent: { ...structured } };
    } catch (error) {
      signal.throwIfAborted();
      const known = token.explainRefusal(error);
      if (known instanceof BerthError) return createErrorResult(known);
      onUnexpected(error);
      return createErrorResult(new BerthError("internal", "an internal error occurred"));
    }
  }

  #validate(tool: string, args: ToolArguments): BerthToolName {
    const name = berthToolNames.find((known) => known === tool);
    if (name === undefined)
      throw new BerthError("not_found", `there is no tool ${JSON.stringify(tool.slice(0, 100))}`);
    const validate = this.#validators.get(name);
    if (validate?.(args) === true) return name;
    const problems = (validate?.errors ?? []).map((error) => describeProblem(error));
    throw new BerthError("invalid_request", `${name}: ${problems.join("; ")}`);
  }
}

function describeProblem({ instancePath, message, params }: ErrorObject): string {
  const where = instancePath === "" ? "the arguments" : instancePath.slice(1);
  const extra: unknown = params["additionalProperty"];
  const named = typeof extra === "string" ? `: ${JSON.stringify(extra.slice(0, 100))}` : "";
  return `${where} ${message ?? "is wrong"}${named}`;
}

function createErrorResult(error: BerthError): CallResult {
  const { message, hint } = describeFailure(error);
  const shown = {
    code: error.code,
    message: sanitizeText(message, ERROR_CHARS_MAX),
    ...(hint === undefined ? {} : { hint: sanitizeText(hint, ERROR_CHARS_MAX) }),
  };
  const text = hint === undefined ? shown.message : `${shown.message}. Try: ${shown.hint}`;
  return { content: [{ type: "text", text }], structuredContent: { error: shown }, isError: true };
}
