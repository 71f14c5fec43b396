import { measureDiscovery } from "../../test/support/measure-discovery.ts";
import type { Figure } from "../report.ts";

/** Measures the lexical ranking of Discover on the labelled set of tools and requests. */
export async function measureTools(): Promise<Figure> {
  const { all, heldOut } = await measureDiscovery();
  return {
    name: "tools: nDCG@10 of Discover, lexical",
    value: all.ndcgAt10.toFixed(3),
    floor: "",
    ratio: "",
    aim: ">= 0.770",
    isMet: all.ndcgAt10 >= 0.77,
    notes: [
      `held out ${heldOut.ndcgAt10.toFixed(3)}, recall@1 ${all.recallAt1.toFixed(3)}, recall@5 ${all.recallAt5.toFixed(3)}`,
    ],
  };
}
