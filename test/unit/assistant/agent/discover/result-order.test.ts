import { describe, expect, it } from "vitest";
import {
  keepDestructiveBehind,
  limitEachApp,
  type RankedTool,
} from "../../../../../src/assistant/agent/discover/result-order.ts";
import { toSearchableTools } from "../../../../../src/assistant/agent/discover/searchable-tool.ts";
import type { Tier } from "../../../../../src/assistant/agent/port.ts";
import { buildDeclaration } from "../../../../support/agent-harness.ts";

/** Returns ranked tools: one for each app id and tier, with falling scores. */
function rank(...wanted: readonly [appId: string, tier?: Tier][]): readonly RankedTool[] {
  return wanted.flatMap(([appId, tier = "read"], index) => {
    const tools = [buildDeclaration(`tool-${index}`, tier, { type: "object" })];
    return toSearchableTools([{ appId, name: appId, isActivatable: false, tools }]).map((tool) => ({
      ...tool,
      score: 100 - index,
    }));
  });
}

const idsOf = (ranked: readonly RankedTool[]) => ranked.map(({ id }) => id);

describe("the order of the results", () => {
  const copies = Array.from({ length: 12 }, (): [string] => ["a.copies"]);

  it("leaves some places to tools of other apps, even if their scores are lower than those of one app with many tools", () => {
    const placed = limitEachApp(rank(...copies, ["b.b"], ["c.c"], ["d.d"]), 20);
    expect(placed).toHaveLength(15);
    const others = placed.flatMap(({ app }, place) => (app.appId === "a.copies" ? [] : [place]));
    expect(others).toEqual([3, 7, 11]);
    const scores = placed.map(({ score }) => score);
    expect(scores).toEqual(scores.toSorted((a, b) => b - a));
  });

  it("is unchanged if the tools are of one app, or if no app has too many", () => {
    const single = rank(...copies);
    expect(idsOf(limitEachApp(single, 5))).toEqual(idsOf(single).slice(0, 5));
    const mixed = rank(["a.a"], ["a.a"], ["b.b"], ["a.a"]);
    expect(limitEachApp(mixed, 4)).toEqual(mixed);
  });

  it("has a tool that is not destructive first, if there is one", () => {
    const ranked = rank(["a.a", "destructive"], ["a.a", "destructive"], ["a.a", "write"]);
    const [first, second, third] = idsOf(ranked);
    expect(idsOf(keepDestructiveBehind(ranked))).toEqual([third, first, second]);
    const destructive = rank(["a.a", "destructive"], ["b.b", "destructive"]);
    expect(keepDestructiveBehind(destructive)).toEqual(destructive);
  });
});
