import type { AgentService, JsonObject, Tier, ToolRecord } from "../../agent/port.ts";
import type { AppManifest, ToolRegistry } from "../../agent/tool-manifest.ts";

/** A tool that the model may choose in this turn. */
export interface ToolCandidate {
  /** A unique name: `org.example.Notes/create_note`. */
  readonly name: string;
  readonly appId: string;
  readonly tool: string;
  readonly tier: Tier;
  readonly description: string;
  readonly inputSchema: JsonObject;
  /** Digest of the declaration; results about a schema stay valid while it is unchanged. */
  readonly digest: string;
}

/** The manifests of apps by id. */
export type ToolDeclarations = Pick<ToolRegistry, "find">;

/** Returns the tools that match the user's request, best first. */
export async function findCandidates(
  query: string,
  sources: { readonly agent: AgentService; readonly declarations: ToolDeclarations },
  limits: { readonly toolsMax: number; readonly signal: AbortSignal },
): Promise<readonly ToolCandidate[]> {
  const found = await sources.agent.discover(query, limits.signal);
  return found
    .slice(0, limits.toolsMax)
    .flatMap((record) => toCandidate(record, sources.declarations.find(record.app_id)) ?? []);
}

/** Returns undefined if the app was removed since it was found. */
function toCandidate(record: ToolRecord, app: AppManifest | undefined): ToolCandidate | undefined {
  const declared = app?.tools.find(({ name }) => name === record.name);
  if (!app || !declared) return undefined;
  const { name, tier, description, inputSchema, digest } = declared;
  const { appId } = app;
  return { name: `${appId}/${name}`, appId, tool: name, tier, description, inputSchema, digest };
}
