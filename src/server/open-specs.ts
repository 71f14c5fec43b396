import { join } from "node:path";
import type { Cleanup } from "../base/cleanup.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { Config } from "../config/config.ts";
import type { Git } from "../controller/git/git.ts";
import { FollowedSpecs } from "../controller/specs/followed-specs.ts";
import { SpecFolder } from "../controller/specs/spec-folder.ts";
import { SpecsGitFollower } from "../controller/specs/specs-git-follower.ts";
import type { ReservedPort } from "../resources/reserved-ports.ts";
import type { Store } from "../store/store.ts";
import type { SpecsControl } from "./local-control-plane.ts";

/** Opens the watched folder, and the follower that mirrors a repository to it if the configuration names one. */
export function openSpecs(options: {
  readonly config: Config;
  readonly reservedPorts: readonly ReservedPort[];
  readonly store: Store;
  readonly git: Git;
  readonly clock: Clock;
  readonly logger: Logger;
}): {
  readonly control: SpecsControl;
  /**
   * Reads the watched folder and starts to follow its changes. Resolves when the folder has been read once. Adds all
   * work that it starts to `starting`, whose disposal ends the work.
   */
  readonly start: (starting: Cleanup, signal: AbortSignal) => Promise<void>;
} {
  const { config, store, git, clock, logger } = options;
  const { specsDir, baseDomain, apiDomain } = config;
  const admission = { baseDomain, apiDomain, reservedPorts: options.reservedPorts };
  const trust = config.specsTrust;
  const folder = new SpecFolder({ folder: specsDir, admission, trust, store, clock, logger });
  const follower =
    config.specsGit &&
    new SpecsGitFollower({
      git,
      folder: specsDir,
      tempDir: join(config.dataDir, "specs-git"),
      config: config.specsGit,
      store,
      clock,
      logger,
      random: Math.random,
      rescan: () => folder.rescan(),
    });
  return {
    control: follower ? new FollowedSpecs(folder, follower) : folder,
    start: async (starting, signal) => {
      starting.use(folder);
      await folder.start(signal);
      if (follower) starting.use(follower).start();
    },
  };
}
