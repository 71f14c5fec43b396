import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Figure } from "./report.ts";
import { measureRelevance } from "./search/relevance.ts";
import { measureSpeed } from "./search/speed.ts";

/**
 * Measures the relevance of rankings on this machine's manual pages, and the speed of a search in `passages` passages.
 * All files are in the working directory, because a /tmp in memory would make the search faster than on a disk.
 */
export async function benchSearch(passages: number): Promise<Figure[]> {
  mkdirSync(".berth", { recursive: true });
  const dir = mkdtempSync(resolve(".berth/bench-search-"));
  try {
    return [...measureRelevance(dir), ...(await measureSpeed(join(dir, "speed"), passages))];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
