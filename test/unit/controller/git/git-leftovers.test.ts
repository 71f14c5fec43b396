import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Git } from "../../../../src/controller/git/git.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

test("the start of Berth removes a deploy key that a killed process has left", async () => {
  const dir = temporaryFolder("git");
  mkdirSync(join(dir, "work", "left"), { recursive: true });
  writeFileSync(join(dir, "work", "left", "key"), "private");
  writeFileSync(join(dir, "known_hosts"), "git.example.org ssh-ed25519 AAAA\n");
  await new Git({ dir }).start();
  expect(readdirSync(join(dir, "work"))).toEqual([]);
  expect(readdirSync(dir)).toContain("known_hosts");
});
