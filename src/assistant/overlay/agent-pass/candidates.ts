import type { AppManifest, ToolRegistry } from "../../agent/manifest.ts";
import type { AgentService, JsonObject, Tier, ToolRecord } from "../../agent/port.ts";

/** A tool that the model may choose in this turn. */
export interface Candidate {
  /** `org.example.Notes/create_note`: no two are called the same. */
  readonly name: string;
  readonly appId: string;
  readonly tool: string;
  readonly tier: Tier;
  readonly description: string;
  readonly inputSchema: JsonObject;
  /** Of the declaration: what has been learned of a tool holds while it stays the same. */
  readonly digest: string;
}

/** What apps declare, by their ids. */
export type Declarations = Pick<ToolRegistry, "find">;

/** The tools that the wish is about, best first. */
export async function candidatesFor(
  wish: string,
  sources: { readonly agent: AgentService; readonly declarations: Declarations },
  limits: { readonly toolsMax: number; readonly signal: AbortSignal },
): Promise<readonly Candidate[]> {
  const found = await sources.agent.discover(wish, limits.signal);
  return found
    .slice(0, limits.toolsMax)
    .flatMap((record) => candidateOf(record, sources.declarations.find(record.app_id)) ?? []);
}

/** Undefined: the app has gone since it was found. */
function candidateOf(record: ToolRecord, app: AppManifest | undefined): Candidate | undefined {
  const declared = app?.tools.find(({ name }) => name === record.name);
  if (!app || !declared) return undefined;
  const { name, tier, description, inputSchema, digest } = declared;
  const { appId } = app;
  return { name: `${appId}/${name}`, appId, tool: name, tier, description, inputSchema, digest };
}
