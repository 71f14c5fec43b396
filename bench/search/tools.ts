import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { LexicalIndex } from "../../src/assistant/agent/discover/lexical-index.ts";
import {
  buildEmbeddingText,
  toSearchableTools,
} from "../../src/assistant/agent/discover/searchable-tool.ts";
import { corpusApps } from "../../test/support/discover-corpus.ts";
import {
  type DiscoveryFigures,
  measureDiscovery,
  type WishFigures,
  withoutSearchTexts,
} from "../../test/support/measure-discovery.ts";
import type { Figure } from "../report.ts";
import { loadGgufEmbedder } from "./gguf-embedder.ts";

/**
 * Measures how well `Discover` finds tools for the sentences in test/fixtures/discover. Each sentence is the wish of a
 * user. With `modelPath`, the path of a GGUF file, also measures the search with that embedding model.
 */
export async function benchTools(modelPath: string | undefined): Promise<Figure[]> {
  const bareApps = withoutSearchTexts(corpusApps());
  const asDeclared = await measureDiscovery();
  const bare = await measureDiscovery({ apps: bareApps });
  const notes = [
    ...describe("as declared", asDeclared),
    ...describe("without keywords and examples", bare),
  ];
  if (modelPath !== undefined) {
    const embedder = await loadGgufEmbedder(modelPath);
    // The embedder caches the vectors of the tools before the measurement, because discovery limits the time for
    // embedding.
    const tools = toSearchableTools([...corpusApps(), ...bareApps]);
    await embedder.embed(tools.map(buildEmbeddingText), new AbortController().signal);
    const hybrid = await measureDiscovery({ embedder });
    const bareHybrid = await measureDiscovery({ embedder, apps: bareApps });
    notes.push(
      ...describe(`${embedder.id}, as declared`, hybrid),
      ...describe(`${embedder.id}, without keywords and examples`, bareHybrid),
    );
  }
  const { heldOut, chosen } = asDeclared;
  const destructive = heldOut.destructiveFirst + chosen.destructiveFirst;
  const noFloor = { floor: "", ratio: "" };
  return [
    {
      name: "tools: a right one among four, held out",
      value: toPercent(heldOut.amongFourShare),
      ...noFloor,
      aim: ">= 90 %",
      isMet: heldOut.amongFourShare >= 0.9,
      notes,
    },
    {
      name: "tools: destructive first for a look",
      value: String(destructive),
      ...noFloor,
      aim: "0",
      isMet: destructive === 0,
    },
    { ...measureIndex(asDeclared.queryMs), ...noFloor, aim: "", isMet: undefined },
  ];
}

function describe(name: string, { chosen, heldOut, queries }: DiscoveryFigures): string[] {
  const { ndcgAt10, recallAt1, recallAt5 } = queries;
  return [
    `${name}: ${describeWishes("wishes", chosen)}`,
    `${name}: ${describeWishes("held-out wishes", heldOut)}`,
    `${name}: queries: nDCG@10 ${ndcgAt10.toFixed(3)}, first ${toPercent(recallAt1)}, among five ${toPercent(recallAt5)}`,
  ];
}

function describeWishes(kind: string, figures: WishFigures): string {
  const { wishes, firstShare, amongFourShare, meanReciprocalRank, destructiveFirst } = figures;
  return (
    `${wishes} ${kind}: first ${toPercent(firstShare)}, among four ${toPercent(amongFourShare)}, ` +
    `MRR ${meanReciprocalRank.toFixed(3)}, destructive first for a look ${destructiveFirst}`
  );
}

function toPercent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
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
  // Using the index here keeps it from being garbage-collected before its memory has been measured.
  const found = index.rank("note").length;
  return {
    name: "tools: median ms of a query",
    value: queryMs.toFixed(2),
    notes: [
      `index of ${tools.length} tools: ${buildMs.toFixed(0)} ms to build, ${kilobytes.toFixed(0)} KiB of heap; ${found} tools about notes`,
    ],
  };
}
