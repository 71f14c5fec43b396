import type { ControlPlane, SpecsGitReport, SpecsReport } from "../port.ts";
import type { SpecFolder } from "./spec-folder.ts";
import type { SpecsGitFollower } from "./specs-git-follower.ts";

/** Combines the watched folder and the follower of its repository, for the API. */
export class FollowedSpecs {
  readonly #folder: SpecFolder;
  readonly #follower: SpecsGitFollower;

  constructor(folder: SpecFolder, follower: SpecsGitFollower) {
    this.#folder = folder;
    this.#follower = follower;
  }

  report(): SpecsReport {
    return { ...this.#folder.report(), git: this.#follower.report() };
  }

  confirmPrune(): ReturnType<ControlPlane["confirmPrune"]> {
    return this.#folder.confirmPrune();
  }

  sync(signal: AbortSignal): Promise<SpecsGitReport> {
    return this.#follower.sync(signal);
  }
}
