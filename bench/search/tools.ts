import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { LexicalIndex } from "../../src/assistant/agent/discover/lexical-index.ts";
import { toSearchableTools } from "../../src/assistant/agent/discover/searchable-tool.ts";
import { corpusApps } from "../../test/support/discover-corpus.ts";
import {
  type DiscoveryFigures,
  measureDiscovery,
  type WishFigures,
  withoutSearchTexts,
} from "../../test/support/measure-discovery.ts";
import type { Figure } from "../report.ts";

/** Measures Discover without an embedding model on the wishes of test/fixtures/discover. */
export async function benchTools(): Promise<Figure[]> {
  const apps = corpusApps();
  const asDeclared = await measureDiscovery();
  const bare = await measureDiscovery({ apps: withoutSearchTexts(apps) });
  const toShare = (share: number) => `${(100 * share).toFixed(1)} %`;
  const describe = ({ wishes, ...figures }: WishFigures) =>
    `${wishes} wishes: first ${toShare(figures.firstShare)}, among four ${toShare(figures.amongFourShare)}, ` +
    `MRR ${figures.meanReciprocalRank.toFixed(3)}, destructive first ${figures.destructiveFirst}`;
  const table = (name: string, { chosen, heldOut, queries }: DiscoveryFigures) => [
    `${name}, chosen by:   ${describe(chosen)}`,
    `${name}, held out:    ${describe(heldOut)}`,
    `${name}, older set:   nDCG@10 ${queries.ndcgAt10.toFixed(3)}, recall@1 ${queries.recallAt1.toFixed(3)}, recall@5 ${queries.recallAt5.toFixed(3)}`,
  ];
  const { heldOut, chosen } = asDeclared;
  const destructive = heldOut.destructiveFirst + chosen.destructiveFirst;
  return [
    {
      name: "tools: a right one among four, held out",
      value: toShare(heldOut.amongFourShare),
      floor: "",
      ratio: "",
      aim: ">= 90 %",
      isMet: heldOut.amongFourShare >= 0.9,
      notes: [...table("as declared", asDeclared), ...table("without keywords and examples", bare)],
    },
    {
      name: "tools: destructive first for a look",
      value: String(destructive),
      floor: "",
      ratio: "",
      aim: "0",
      isMet: destructive === 0,
    },
    { ...measureIndex(asDeclared.queryMs), floor: "", ratio: "", aim: "", isMet: undefined },
  ];
}

function measureIndex(queryMs: number): Pick<Figure, "name" | "value" | "notes"> {
  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");
  const tools = toSearchableTools(corpusApps());
  collectGarbage();
  const usedBefore = process.memoryUsage().heapUsed;
  const startedAt = performance.now();
  const index = new LexicalIndex(tools);
  const buildMs = performance.now() - startedAt;
  collectGarbage();
  const kilobytes = (process.memoryUsage().heapUsed - usedBefore) / 1024;
  // The index is used after the measurement, so that it is not collected before.
  const found = index.rank("note").length;
  return {
    name: "tools: median ms of a query",
    value: queryMs.toFixed(2),
    notes: [
      `index of ${tools.length} tools: ${buildMs.toFixed(0)} ms to build, ${kilobytes.toFixed(0)} KiB of heap; ${found} tools about notes`,
    ],
  };
}
