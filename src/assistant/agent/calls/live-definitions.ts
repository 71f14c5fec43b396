import { createHash } from "node:crypto";
import { canonicalJson } from "../../../base/canonical-json.ts";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { JsonObject } from "../port.ts";
import type { ToolApps } from "../tool-apps.ts";
import type { AppManifest, ToolDeclaration } from "../tool-manifest.ts";
import type { CallJournal } from "./call-journal.ts";
import { type CallRefusal, deniedRefusal, failedRefusal } from "./planned-call.ts";

/**
 * What an app's tool is at the moment against what its manifest declares. A person has agreed to the
 * manifest; what an app says at run time counts only as far as it says the same, or was approved.
 */
export class LiveDefinitions {
  readonly #apps: ToolApps;
  readonly #journal: Pick<CallJournal, "findChangedTool" | "setChangedTool">;
  readonly #logger: Logger;
  /** Of schemas that have been looked at; an app's connection keeps giving the same one. */
  readonly #digests = new WeakMap<JsonObject, string>();

  constructor(options: {
    readonly apps: ToolApps;
    readonly journal: Pick<CallJournal, "findChangedTool" | "setChangedTool">;
    readonly logger: Logger;
  }) {
    this.#apps = options.apps;
    this.#journal = options.journal;
    this.#logger = options.logger;
  }

  /** Connects to the app. Undefined: it may be called. Rejects with ToolAppError, or the signal's reason. */
  async check(
    app: AppManifest,
    tool: ToolDeclaration,
    signal: AbortSignal,
  ): Promise<CallRefusal | undefined> {
    const live = await this.#apps.getDefinition(app, tool.name, signal);
    if (!live)
      return failedRefusal(
        "unknown_tool",
        `${app.name} does not have its tool ${tool.name} any more`,
      );
    const digest = this.#digestSchema(live.inputSchema);
    if (digest === undefined)
      return failedRefusal(
        "bad_result",
        `${app.name} describes its tool ${tool.name} beyond all measure`,
      );
    if (digest === this.#digestSchema(tool.inputSchema)) return undefined;
    const known = this.#journal.findChangedTool(app.appId, tool.name);
    if (known?.declared !== tool.digest || known.live !== digest) {
      const changed = { declared: tool.digest, live: digest, isApproved: false };
      this.#journal.setChangedTool(app.appId, tool.name, changed);
    } else if (known.isApproved) return undefined;
    this.#logger.warn(
      { app: app.appId, tool: tool.name, digest },
      "a tool is not what it declares",
    );
    const message = `${app.name} takes other arguments for ${tool.name} than its manifest declares; approve the tool to use it all the same`;
    return deniedRefusal("manifest_changed", message, { digest });
  }

  /**
   * Why a call that waits for a person could not run afterwards, as far as that can be known without reaching
   * for the app: nobody is asked about it then. Never rejects.
   */
  async precheck(
    app: AppManifest,
    tool: ToolDeclaration,
    signal: AbortSignal,
  ): Promise<CallRefusal | undefined> {
    if (!(await this.#apps.isReachable(app)))
      return failedRefusal(
        "app_unavailable",
        `${app.name} is not running, and nothing can start it`,
      );
    if (!this.#apps.isConnected(app.appId)) return undefined;
    // What is left open here is found out when the call is given out.
    return this.check(app, tool, signal).catch(() => undefined);
  }

  /** Accepts what the app was last seen to have, and nothing else. Throws `not_found`. */
  approve(appId: string, tool: ToolDeclaration, digest: string): void {
    const known = this.#journal.findChangedTool(appId, tool.name);
    if (known?.declared !== tool.digest || known.live !== digest)
      throw new AssistantError(
        "not_found",
        `${tool.name} of ${appId} has not been seen with that definition; call it, and take the digest of the answer`,
      );
    if (known.isApproved) return;
    this.#journal.setChangedTool(appId, tool.name, { ...known, isApproved: true });
    this.#logger.info(
      { app: appId, tool: tool.name, digest },
      "a tool that has changed is approved",
    );
  }

  /** Of all that says which arguments it takes; undefined where it is nested beyond what can be written. */
  #digestSchema(schema: JsonObject): string | undefined {
    const known = this.#digests.get(schema);
    if (known !== undefined) return known;
    const { $schema: _dialect, title: _title, ...rest } = schema;
    try {
      const digest = createHash("sha256").update(canonicalJson(rest)).digest("hex");
      this.#digests.set(schema, digest);
      return digest;
    } catch (error) {
      if (error instanceof RangeError) return undefined;
      throw error;
    }
  }
}
