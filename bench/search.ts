import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Figure } from "./report.ts";
import { measureRelevance } from "./search/relevance.ts";
import { measureSpeed } from "./search/speed.ts";
import { measureTools } from "./search/tools.ts";

/**
 * How good the ranking is, over the machine's own manual and a set of tools, and how quick a search is at `passages`
 * passages. Everything lies in the working directory, which stands on a disk where /tmp may not.
 */
export async function benchSearch(passages: number): Promise<Figure[]> {
  mkdirSync(".berth", { recursive: true });
  const dir = mkdtempSync(resolve(".berth/bench-search-"));
  try {
    return [
      ...measureRelevance(dir),
      await measureTools(),
      ...(await measureSpeed(join(dir, "speed"), passages)),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
