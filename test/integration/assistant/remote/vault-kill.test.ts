import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it, onTestFinished } from "vitest";
import { bundleProgram } from "../../../support/bundle-program.ts";
import { Dice } from "../../../support/random.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";
import { VaultHarness } from "../../../support/vault-harness.ts";

const PROGRAM = await bundleProgram("test/support/vault-process.ts");

/**
 * Runs the process until it has printed `lines` lines, waits `moreMs` milliseconds more, and kills it. Returns the
 * lines.
 */
async function linesUntilKilled(dir: string, lines: number, moreMs: number): Promise<string[]> {
  const child = spawn(process.execPath, [PROGRAM, dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(line);
    if (said.length !== lines) continue;
    setTimeout(() => child.kill("SIGKILL"), moreMs);
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return said;
}

it("after kill -9 at any moment, each credential is either the old or the new one, and all can be read", async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const dice = new Dice(seed);
  const dir = temporaryFolder("vault");
  /**
   * The states in which each provider's credential may be: the acknowledged one, and the one that was being written.
   */
  const possible = new Map<string, Set<string | undefined>>();
  for (let round = 0; round < 3; round += 1) {
    // The first process is killed while it creates the vault and its key.
    const said = await linesUntilKilled(
      dir,
      dice.between(1, round === 0 ? 2 : 30),
      dice.between(0, 12),
    );
    for (const line of said.slice(1)) {
      const [what = "", id = "", number = ""] = line.split(" ");
      const before = possible.get(id) ?? new Set<string | undefined>([undefined]);
      const outcome = what === "put" || what === "has" ? number : undefined;
      const isDone = what === "has" || what === "gone";
      possible.set(id, isDone ? new Set([outcome]) : new Set([...before, outcome]));
    }
    const harness = new VaultHarness({ dir });
    const vault = await harness.start();
    expect(vault.protection(), `seed ${seed}`).toEqual({
      source: "file",
      state: "ready",
      message: null,
    });
    for (const [id, outcomes] of possible) {
      const credential = await vault.get({ id, origin: `https://${id}.example` });
      const found = credential?.kind === "key" ? credential.key.split(" ")[0] : undefined;
      expect([...outcomes], `seed ${seed}, round ${round}, ${id}`).toContain(found);
      possible.set(id, new Set([found]));
    }
    const log = join(dir, "vault.db-wal");
    expect(existsSync(log) ? statSync(log).size : 0, `seed ${seed}`).toBe(0);
    await vault[Symbol.asyncDispose]();
  }
  expect(possible.size).toBe(3);
}, 60_000);
