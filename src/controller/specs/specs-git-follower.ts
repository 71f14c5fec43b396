import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, delay, timestamp } from "../../base/clock.ts";
import { BerthError, getErrorCode, getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { SpecsGitSettings } from "../../config/config.ts";
import type { Store } from "../../store/store.ts";
import { parseGitCredential } from "../git/git-credential.ts";
import { isSameRepository, redactUrl } from "../git/git-url.ts";
import type { GitClient, GitRepository } from "../git/port.ts";
import type { SpecsGitReport } from "../port.ts";
import { isHidden } from "./file-names.ts";
import { deriveFolderName } from "./git-files.ts";
import { type Marker, readMarker, writeMarker } from "./git-marker.ts";
import {
  claimFolder,
  findDifferences,
  hashFiles,
  mirrorFiles,
  readSpecFiles,
} from "./git-mirror.ts";
import { MANAGER_PREFIX, parseFileManager } from "./spec-file.ts";

/**
 * The limits of a checkout. They are far above the size of any specs, so a larger repository is probably the wrong
 * one.
 */
const CHECKOUT_LIMITS = { bytesMax: 64 * 1024 * 1024, filesMax: 20_000 } as const;
/**
 * The time limit of one round, which fetches the repository and updates its files. A longer round is aborted, for
 * example if a server sends only one byte a minute.
 */
const ROUND_MS_MAX = 5 * 60_000;
const RETRY_MS_MIN = 5_000;
const RETRY_MS_MAX = 10 * 60_000;
const NAMES_SHOWN_MAX = 5;

export interface SpecsGitFollowerOptions {
  readonly git: GitClient;
  /** The watched folder. The files of the repository are written to a subfolder of it. */
  readonly folder: string;
  /** The folder for checkouts. It is created, and emptied at the start, so it must contain nothing else. */
  readonly tempDir: string;
  readonly config: SpecsGitSettings;
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Returns a random number from 0 to 1, to spread retries. */
  readonly random: () => number;
  /** Scans the watched folder. Called after the mirror has changed files in it. */
  readonly rescan?: () => Promise<void>;
}

/**
 * Mirrors a repository into the watched folder. The rules of that folder then apply to the files: an invalid file
 * changes nothing, and a missing file is pruned in two phases. Level-triggered: each round resolves the commit and
 * compares the files, so that a round can be interrupted at any point.
 */
export class SpecsGitFollower implements AsyncDisposable {
  readonly #options: SpecsGitFollowerOptions;
  readonly #logger: Logger;
  readonly #tasks: TaskGroup;
  readonly #name: string;
  readonly #target: string;
  #state: SpecsGitReport["state"] = "following";
  #message: string | null = "not fetched yet";
  #commit: string | null = null;
  #checkedAt: string | null = null;
  #appliedAt: string | null = null;
  #failures = 0;
  /**
   * The sha256 of each file of `#commit`, by path; undefined until this process has written the files to the watched
   * folder.
   */
  #hashes: ReadonlyMap<string, string> | undefined;
  #round: Promise<void> = Promise.resolve();
  /** The fetch of the repository that has been requested and has not begun. */
  #nextRound: Promise<void> | undefined;

  constructor(options: SpecsGitFollowerOptions) {
    this.#options = options;
    this.#logger = options.logger.child({ room: "specs" });
    this.#tasks = new TaskGroup((error, task) =>
      this.#logger.error({ task, err: getErrorMessage(error) }, "a background task failed"),
    );
    this.#name = deriveFolderName(options.config.url);
    this.#target = join(options.folder, this.#name);
  }

  /** Starts the follower. The first fetch of the repository has begun when the method returns. */
  start(): void {
    this.#tasks.run("specs from git", (signal) => this.#follow(signal));
  }

  /**
   * Requests a fetch of the repository. Resolves when a fetch that began after this call has ended, even if it failed.
   * Rejects when `signal` aborts.
   */
  async sync(signal: AbortSignal): Promise<SpecsGitReport> {
    signal.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => reject(signal.reason);
      signal.addEventListener("abort", onAbort, { once: true });
      const unlisten = () => signal.removeEventListener("abort", onAbort);
      void this.#requestRound().finally(unlisten).then(resolve, reject);
    });
    return this.report();
  }

  /**
   * Handles the notice of a push to a repository, which may have several URLs. If the watched folder mirrors this
   * repository, requests a fetch and returns true.
   */
  handlePush(urls: readonly string[], ref: string | undefined): boolean {
    const { url, ref: own } = this.#options.config;
    if (!urls.some((one) => isSameRepository(one, url))) return false;
    const names = [own, `refs/heads/${own}`, `refs/tags/${own}`];
    if (ref !== undefined && own !== undefined && !names.includes(ref)) return false;
    this.#tasks.run("specs from git after a push", () => this.#requestRound());
    return true;
  }

  report(): SpecsGitReport {
    const { url, ref, path } = this.#options.config;
    return {
      url: redactUrl(url),
      ref: ref ?? null,
      path,
      folder: this.#name,
      commit: this.#commit,
      state: this.#state,
      message: this.#message,
      checkedAt: this.#checkedAt,
      appliedAt: this.#appliedAt,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tasks[Symbol.asyncDispose]();
    await this.#round;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { clock, config, tempDir } = this.#options;
    await rm(tempDir, { recursive: true, force: true });
    const marker = await readMarker(this.#target).catch(() => undefined);
    if (marker?.url === redactUrl(config.url)) {
      this.#commit = marker.commit;
      this.#appliedAt = marker.applied_at;
    }
    while (!signal.aborted) {
      await this.#requestRound();
      await delay(clock, this.#failures === 0 ? config.intervalMs : this.#retryMs(), signal);
    }
  }

  #retryMs(): number {
    const { config, random } = this.#options;
    const exponential = RETRY_MS_MIN * 2 ** Math.min(this.#failures - 1, 20);
    const waitMs = Math.min(exponential, Math.max(RETRY_MS_MAX, config.intervalMs));
    return Math.round(waitMs * (0.8 + 0.2 * random()));
  }

  /** Queues one fetch of the repository after the current one. Further callers share this fetch until it begins. */
  #requestRound(): Promise<void> {
    this.#nextRound ??= this.#round.then(() => {
      this.#nextRound = undefined;
      this.#round = this.#runRound().catch((error: unknown) => {
        this.#logger.error(
          { err: error },
          "the store failed, specs from git will be fetched again",
        );
      });
      return this.#round;
    });
    return this.#nextRound;
  }

  async #runRound(): Promise<void> {
    const { clock } = this.#options;
    const stop = this.#tasks.signal;
    const limit = new AbortController();
    const cancel = clock.setTimer(ROUND_MS_MAX, () => limit.abort());
    try {
      await this.#syncOnce(AbortSignal.any([stop, limit.signal]));
      this.#failures = 0;
      this.#state = "following";
      this.#message = null;
    } catch (error) {
      if (stop.aborted) return;
      this.#failures += 1;
      const overdue = `fetching the repository and updating its files took longer than ${ROUND_MS_MAX / 60_000} minutes`;
      this.#noteFailure(limit.signal.aborted ? overdue : describeFailure(error));
      if (!(error instanceof BerthError) && !isAbortError(error))
        this.#logger.error({ err: error }, "the repository of the specs could not be followed");
    } finally {
      cancel();
    }
    this.#checkedAt = timestamp(clock.now());
  }

  async #syncOnce(signal: AbortSignal): Promise<void> {
    const { git, config, rescan } = this.#options;
    const repository = this.#resolveRepository();
    const commit = await git.resolve(repository, config.ref, signal);
    if (commit === this.#commit && (await this.#isFolderUnchanged(signal))) return;
    const files = await this.#checkout(repository, commit, signal);
    await this.#assertFolderMounted();
    const fields = { url: redactUrl(config.url), ref: config.ref ?? null };
    const fresh: Marker = { ...fields, commit: null, applied_at: null };
    const marker = await claimFolder(this.#target, fresh);
    const { written, removed } = await mirrorFiles(this.#target, files, signal);
    const isSame = marker.commit === commit && marker.url === fields.url;
    if (written.length > 0 || removed.length > 0 || !isSame) {
      this.#noteApplied({ commit, written, removed, isSame });
      this.#appliedAt = timestamp(this.#options.clock.now());
      await writeMarker(this.#target, { ...fields, commit, applied_at: this.#appliedAt });
      await rescan?.();
    } else {
      this.#appliedAt = marker.applied_at;
    }
    this.#hashes = hashFiles(files);
    this.#commit = commit;
  }

  async #isFolderUnchanged(signal: AbortSignal): Promise<boolean> {
    const marker = await readMarker(this.#target).catch(() => undefined);
    if (!this.#hashes || marker?.commit !== this.#commit) return false;
    const { changed, foreign } = await findDifferences(this.#target, this.#hashes, signal);
    return changed.length === 0 && foreign.size === 0;
  }

  #resolveRepository(): GitRepository {
    const { config, store } = this.#options;
    if (config.credential === undefined) return { url: config.url };
    const values = store.secrets.reveal(config.credential);
    if (!values) {
      throw new BerthError("git_denied", `there is no Secret ${config.credential}`, {
        hint: `create the Secret with: berth secrets set ${config.credential} token=-`,
      });
    }
    return { url: config.url, credential: parseGitCredential(config.credential, values) };
  }

  async #checkout(
    repository: GitRepository,
    commit: string,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, Uint8Array>> {
    const { git, config, tempDir } = this.#options;
    await mkdir(tempDir, { recursive: true, mode: 0o700 });
    const dir = await mkdtemp(join(tempDir, "checkout-"));
    try {
      await git.checkout(repository, { commit, ref: config.ref }, dir, CHECKOUT_LIMITS, signal);
      return await readSpecFiles(dir, config.path, signal);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  }

  /**
   * Refuses to write if the watched folder is missing or empty although files in it declare resources, because the
   * folder is probably not mounted. With new files in it, the folder would look as if the other files had been
   * deleted.
   */
  async #assertFolderMounted(): Promise<void> {
    const { folder, store } = this.#options;
    const own = `${this.#name}/`;
    const managers = [...store.listDeclared(MANAGER_PREFIX).keys()];
    if (managers.every((manager) => parseFileManager(manager).startsWith(own))) {
      await mkdir(folder, { recursive: true });
      return;
    }
    const entries = await readdir(folder).catch((error: unknown) => {
      if (getErrorCode(error) === "ENOENT") return [];
      throw error;
    });
    if (entries.some((name) => !isHidden(name))) return;
    throw new BerthError("wrong_state", "the watched folder is missing or empty", {
      hint: "restore the files of the folder; until then Berth writes nothing to it",
    });
  }

  #noteApplied(what: {
    commit: string;
    written: readonly string[];
    removed: readonly string[];
    isSame: boolean;
  }): void {
    const { store, config } = this.#options;
    const { commit, written, removed, isSame } = what;
    const counts = `${written.length} files written, ${removed.length} removed`;
    const of = config.ref === undefined ? "" : ` of ${config.ref}`;
    const message = isSame
      ? `files were changed by hand, and Berth restored them from the repository: ${formatShortList(this.#name, [...written, ...removed])}`
      : `commit ${commit.slice(0, 12)}${of} is in ${this.#name}/: ${counts}`;
    const reason = isSame ? "SpecsGitDrift" : "SpecsGitApplied";
    const type = isSame ? "Warning" : "Normal";
    store.events.record({ kind: null, name: "", type, reason, message });
    this.#logger.info(
      { commit, written: written.length, removed: removed.length },
      isSame ? "files of the repository were restored" : "specs applied from the repository",
    );
  }

  /** Records each problem once. If a problem lasts, no further event is recorded. */
  #noteFailure(message: string): void {
    const isNew = this.#state !== "failing" || this.#message !== message;
    this.#state = "failing";
    this.#message = message;
    if (!isNew) return;
    const { store } = this.#options;
    const text = `${message} (the files of the last commit stay unchanged)`;
    store.events.record({
      kind: null,
      name: "",
      type: "Warning",
      reason: "SpecsGitFailed",
      message: text,
    });
    this.#logger.warn({ why: message }, "the repository of the specs cannot be followed");
  }
}

/** Describes an error of the file system by its code, because its message names paths of the machine. */
function describeFailure(error: unknown): string {
  if (error instanceof BerthError)
    return error.hint === undefined ? error.message : `${error.message}; ${error.hint}`;
  const code = getErrorCode(error) ?? "unknown";
  if (code === "ENOSPC" || code === "EDQUOT") return "the disk is full";
  if (code === "EACCES" || code === "EPERM" || code === "EROFS")
    return `Berth may not write to the watched folder (${code})`;
  return `the files of the repository cannot be put into the watched folder (${code})`;
}

function formatShortList(folder: string, paths: readonly string[]): string {
  const shown = paths.slice(0, NAMES_SHOWN_MAX).map((path) => `${folder}/${path}`);
  const more = paths.length - shown.length;
  return `${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
