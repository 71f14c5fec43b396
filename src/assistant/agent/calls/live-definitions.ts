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
 * Compares the definition that a running app reports for a tool with the app's manifest. The user has agreed to the
 * manifest; a tool whose definition differs can be called only after the user has approved that definition.
 */
export class LiveDefinitions {
  readonly #apps: ToolApps;
  readonly #journal: Pick<CallJournal, "findChangedTool" | "setChangedTool">;
  readonly #logger: Logger;
  /** Digests of schemas that were already hashed; a connection returns the same schema object each time. */
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

  /**
   * Connects to the app and compares its definition of the tool with the manifest. Returns undefined if the tool may be
   * called. Rejects with ToolAppError or the signal's reason.
   */
  async check(
    app: AppManifest,
    tool: ToolDeclaration,
    signal: AbortSignal,
  ): Promise<CallRefusal | undefined> {
    const live = await this.#apps.getDefinition(app, tool.name, signal);
    if (!live)
      return failedRefusal("unknown_tool", `${app.name} no longer has its tool ${tool.name}`);
    const digest = this.#digestSchema(live.inputSchema);
    if (digest === undefined)
      return failedRefusal(
        "bad_result",
        `${app.name} describes its tool ${tool.name} with a schema that is nested too deeply`,
      );
    if (digest === this.#digestSchema(tool.inputSchema)) return undefined;
    const known = this.#journal.findChangedTool(app.appId, tool.name);
    if (known?.declared !== tool.digest || known.live !== digest) {
      const changed = { declared: tool.digest, live: digest, isApproved: false };
      this.#journal.setChangedTool(app.appId, tool.name, changed);
    } else if (known.isApproved) return undefined;
    this.#logger.warn(
      { app: app.appId, tool: tool.name, digest },
      "a tool's live definition differs from its manifest",
    );
    const message = `${app.name} accepts other arguments for ${tool.name} than its manifest declares; approve the tool to use it anyway`;
    return deniedRefusal("manifest_changed", message, { digest });
  }

  /**
   * Returns the reason why a call would fail even if the user confirmed it, so that the user is not asked in vain.
   * Does not connect to the app. Never rejects.
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
    // An error at this point is not final, because the definition is checked again when the call is dispatched.
    return this.check(app, tool, signal).catch(() => undefined);
  }

  /**
   * Approves the definition that the app last reported for the tool. Rejects with `not_found` if `digest` belongs to
   * another definition, and with the error of `record`, which is awaited before the approval has an effect.
   */
  async approve(
    appId: string,
    tool: ToolDeclaration,
    digest: string,
    record: () => Promise<unknown>,
  ): Promise<void> {
    const known = this.#journal.findChangedTool(appId, tool.name);
    if (known?.declared !== tool.digest || known.live !== digest)
      throw new AssistantError(
        "not_found",
        `${tool.name} of ${appId} was never seen with that definition; call it, and use the digest from the answer`,
      );
    if (known.isApproved) return;
    await record();
    this.#journal.setChangedTool(appId, tool.name, { ...known, isApproved: true });
    this.#logger.info({ app: appId, tool: tool.name, digest }, "a changed tool was approved");
  }

  /**
   * Returns a digest of those parts of a schema that define the arguments; undefined if the schema is nested too deeply
   * to serialise.
   */
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
