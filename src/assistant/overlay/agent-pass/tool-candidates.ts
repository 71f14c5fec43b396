import type { AgentService, JsonObject, Tier, ToolRecord } from "../../agent/port.ts";
import type { AppManifest, ToolRegistry } from "../../agent/tool-manifest.ts";

/** A tool that the model may choose in this turn. */
export interface ToolCandidate {
  /** A unique name made of the app id and the tool's name, such as `org.example.Notes/create_note`. */
  readonly name: string;
  readonly appId: string;
  readonly tool: string;
  readonly tier: Tier;
  readonly description: string;
  readonly inputSchema: JsonObject;
  /** Digest of the declaration. Cached results about the tool's schema are valid while the digest is unchanged. */
  readonly digest: string;
}

/** The tools that apps declare in their manifests, by app id. */
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

/** Converts a found tool to a candidate; undefined if its app has been removed since the search. */
function toCandidate(record: ToolRecord, app: AppManifest | undefined): ToolCandidate | undefined {
  const declared = app?.tools.find(({ name }) => name === record.name);
  if (!app || !declared) return undefined;
  const { name, tier, description, inputSchema, digest } = declared;
  const { appId } = app;
  return { name: `${appId}/${name}`, appId, tool: name, tier, description, inputSchema, digest };
}
