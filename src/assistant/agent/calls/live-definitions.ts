import { hashJson } from "../../../base/canonical-json.ts";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import { reduceSchema } from "../manifests/reduce-schema.ts";
import type { JsonObject } from "../port.ts";
import type { LiveTool, ToolApps } from "../tool-apps.ts";
import type { AppManifest, ToolDeclaration } from "../tool-manifest.ts";
import type { CallJournal } from "./call-journal.ts";
import { type CallRefusal, deniedRefusal, failedRefusal } from "./planned-call.ts";

/**
 * Compares the definition that a running app reports for a tool with the app's manifest. The user has agreed to the
 * manifest; a tool whose definition differs can be called only after the user has approved that definition. Definitions
 * differ if their schemas allow different arguments, or if both the manifest and the app have a title or a description
 * and the two differ. Users and models never see the other texts of the app.
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
    const args = this.#digestSchema(live.inputSchema);
    if (args === undefined)
      return failedRefusal(
        "bad_result",
        `${app.name} describes its tool ${tool.name} with a schema that is nested too deeply`,
      );
    const texts = findChangedTexts(tool, live);
    const hasSameArguments = args === this.#digestSchema(tool.inputSchema);
    const parts = [...(hasSameArguments ? [] : ["arguments"]), ...Object.keys(texts)];
    if (parts.length === 0) return undefined;
    const digest = hashJson({ arguments: args, ...texts });
    const known = this.#journal.findChangedTool(app.appId, tool.name);
    if (known?.declared !== tool.digest || known.live !== digest) {
      const changed = { declared: tool.digest, live: digest, isApproved: false };
      this.#journal.setChangedTool(app.appId, tool.name, changed);
    } else if (known.isApproved) return undefined;
    this.#logger.warn(
      { app: app.appId, tool: tool.name, digest },
      "a tool's live definition differs from its manifest",
    );
    const message = `${app.name} and its manifest differ in the ${parts.join(" and the ")} of ${tool.name}; approve the tool to use it anyway`;
    return deniedRefusal("manifest_changed", message, { digest });
  }

  /**
   * Returns the reason why a call would fail even if the user confirmed it, so that the user is not asked in vain.
   * Sends nothing to an app that is not connected. Never rejects.
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
   * Returns a digest of those parts of a schema that define the arguments; undefined if the schema is nested too
   * deeply.
   */
  #digestSchema(schema: JsonObject): string | undefined {
    const known = this.#digests.get(schema);
    if (known !== undefined) return known;
    try {
      const digest = hashJson(reduceSchema(schema));
      this.#digests.set(schema, digest);
      return digest;
    } catch (error) {
      if (error instanceof RangeError) return undefined;
      throw error;
    }
  }
}

/**
 * Returns the app's title and description of the tool as far as they differ from those that the manifest declares. The
 * parser of manifests replaces a missing title by the tool's name, and a missing description by an empty text.
 */
function findChangedTexts(
  tool: ToolDeclaration,
  live: LiveTool,
): { readonly title?: string; readonly description?: string } {
  const { title, description } = live;
  return {
    ...(tool.title !== tool.name && isOtherText(title, tool.title) && { title }),
    ...(tool.description !== "" && isOtherText(description, tool.description) && { description }),
  };
}

/** Ignores white space, because many libraries take a description from an indented comment in the program. */
function isOtherText(live: string | undefined, declared: string): live is string {
  return live !== undefined && live !== declared && squeeze(live) !== squeeze(declared);
}

function squeeze(text: string): string {
  return text.trim().replaceAll(/\s+/g, " ");
}
