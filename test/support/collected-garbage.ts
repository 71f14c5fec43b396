import { expect } from "vitest";
import type { CompanionProcess } from "./companion-process.ts";

const preload = new URL("./collect-garbage.mjs", import.meta.url).href;

/** The environment that a daemon needs if `collectGarbage` will be called for it. */
export const COLLECTING = { NODE_OPTIONS: `--import=${preload}` };

/** Resolves when a daemon that was started with COLLECTING has collected all garbage of its main thread. */
export async function collectGarbage(companion: CompanionProcess): Promise<void> {
  const count = () => companion.lines.filter((line) => line.startsWith('{"collected":')).length;
  const before = count();
  process.kill(companion.ready.pid, "SIGUSR2");
  await expect.poll(count).toBeGreaterThan(before);
}
