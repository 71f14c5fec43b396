import type { SearchableTool } from "./searchable-tool.ts";

export interface RankedTool extends SearchableTool {
  readonly score: number;
}

/**
 * The largest share of the first results that the tools of one app can have, while tools of other apps match, too.
 * Without this limit, an app with many copies of a tool would displace all other apps.
 */
const APP_SHARE_MAX = 0.75;

/** Returns at most `count` tools, best first, such that no app takes more than its share of the first places. */
export function limitEachApp(ranked: readonly RankedTool[], count: number): readonly RankedTool[] {
  const waiting = [...ranked];
  const placed: RankedTool[] = [];
  const countByApp = new Map<string, number>();
  while (waiting.length > 0 && placed.length < count) {
    const most = Math.ceil((placed.length + 1) * APP_SHARE_MAX);
    const at = waiting.findIndex(({ app }) => (countByApp.get(app.appId) ?? 0) < most);
    const [next] = waiting.splice(Math.max(at, 0), 1);
    if (!next) break;
    placed.push(next);
    countByApp.set(next.app.appId, (countByApp.get(next.app.appId) ?? 0) + 1);
  }
  return lowerScores(placed);
}

/** Puts the best tool that is not destructive first, if there is one. */
export function keepDestructiveBehind(ranked: readonly RankedTool[]): readonly RankedTool[] {
  const first = ranked.find(({ tool }) => tool.tier !== "destructive");
  return first ? [first, ...ranked.filter((other) => other !== first)] : ranked;
}

/** Lowers scores where necessary, so that no tool has a higher score than a tool before it. */
function lowerScores(ranked: readonly RankedTool[]): readonly RankedTool[] {
  let least = Number.POSITIVE_INFINITY;
  return ranked.map((tool) => {
    least = Math.min(least, tool.score);
    return { ...tool, score: least };
  });
}
