import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../src/base/package-root.ts";
import { type Figure, median } from "./report.ts";

const RUNS = 15;
const run = promisify(execFile);

async function measureMs(words: readonly string[]): Promise<number> {
  const startedMs = performance.now();
  await run(process.execPath, words);
  return performance.now() - startedMs;
}

/**
 * Compares the duration of `berth --version` with that of an empty program on the same Node.js, in alternating rounds.
 */
export async function benchProgramStart(): Promise<Figure> {
  const berth = [join(packageRoot, "bin/berth"), "--version"];
  const empty = ["--eval", ""];
  const times: { readonly berthMs: number; readonly emptyMs: number }[] = [];
  for (let count = 0; count <= RUNS; count += 1)
    times.push({ berthMs: await measureMs(berth), emptyMs: await measureMs(empty) });
  // The first round is not counted, because it reads the files from the disk.
  const warm = times.slice(1);
  const berthMs = median(warm.map((time) => time.berthMs));
  const emptyMs = median(warm.map((time) => time.emptyMs));
  return {
    name: `berth --version, median of ${RUNS}`,
    value: `${Math.round(berthMs)} ms`,
    floor: `${Math.round(emptyMs)} ms, an empty program`,
    ratio: (berthMs / emptyMs).toFixed(1),
    aim: "",
    isMet: undefined,
  };
}
