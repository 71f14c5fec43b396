import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { Git } from "../../src/controller/git/git.ts";
import { SpecsGitFollower } from "../../src/controller/specs/specs-git-follower.ts";
import { openStore } from "../../src/store/sqlite-store.ts";

/** A separate process that follows the repository at URL into `DIR/specs`, for tests that kill it. */
const [dir, url] = process.argv.slice(2);
if (dir === undefined || url === undefined) throw new Error("usage: specs-git-process.ts DIR URL");

const store = openStore({ dataDir: join(dir, "data"), clock: systemClock });
new SpecsGitFollower({
  git: new Git({ dir: join(dir, "git") }),
  folder: join(dir, "specs"),
  tempDir: join(dir, "checkouts"),
  config: { url, ref: undefined, path: ".", intervalMs: 200, credential: undefined },
  store,
  clock: systemClock,
  logger: silentLogger,
  random: Math.random,
}).start();
process.stdin.resume();
