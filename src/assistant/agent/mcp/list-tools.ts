import { type LiveTool, ToolAppError } from "../tool-apps.ts";
import type { McpLimits } from "./mcp-limits.ts";

interface ToolPage {
  readonly tools: readonly {
    readonly name: string;
    readonly title?: string | undefined;
    readonly description?: string | undefined;
    readonly inputSchema: object;
  }[];
  readonly nextCursor?: string | undefined;
}

/** Reads all pages of `tools/list`. Rejects with ToolAppError `bad_result` if a limit is exceeded. */
export async function listTools(
  appId: string,
  limits: McpLimits,
  fetchPage: (cursor: string | undefined) => Promise<ToolPage>,
): Promise<ReadonlyMap<string, LiveTool>> {
  const found = new Map<string, LiveTool>();
  let cursor: string | undefined;
  for (let pages = 0; pages < limits.pagesMax; pages += 1) {
    const { tools, nextCursor } = await fetchPage(cursor);
    for (const { name, title, description, inputSchema } of tools) {
      // A list that contains a name twice is refused, because it would be undefined which tool a call reaches.
      if (found.has(name)) throw new ToolAppError("bad_result", `${appId} lists a tool twice`);
      if (found.size >= limits.toolsMax) {
        throw new ToolAppError("bad_result", `${appId} has more than ${limits.toolsMax} tools`);
      }
      found.set(name, { title, description, inputSchema: { ...inputSchema } });
    }
    if (nextCursor === undefined) return found;
    cursor = nextCursor;
  }
  throw new ToolAppError(
    "bad_result",
    `${appId} lists its tools on more than ${limits.pagesMax} pages`,
  );
}
