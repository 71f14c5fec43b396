import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { BerthError } from "../../src/base/errors.ts";
import { Git, type GitOptions } from "../../src/controller/git/git.ts";
import type { GitCheckout, GitRepository, SourceLimits } from "../../src/controller/git/port.ts";

/** A git adapter with its own folders, and helpers for a test. */
export class GitHarness implements AsyncDisposable {
  readonly root: string;
  readonly git: Git;

  static async make(options: Partial<GitOptions> = {}): Promise<GitHarness> {
    // The path contains a space and a quote, which shows that neither a shell nor ssh splits it.
    const root = await mkdtemp(path.join(os.tmpdir(), "berth git's-"));
    return new GitHarness(root, new Git({ dir: path.join(root, "state"), ...options }));
  }

  private constructor(root: string, git: Git) {
    this.root = root;
    this.git = git;
  }

  get target(): string {
    return path.join(this.root, "target");
  }

  get knownHosts(): string {
    return path.join(this.root, "state", "known_hosts");
  }

  async checkout(
    remote: GitRepository,
    what: { commit: string; ref?: string },
    limits: Partial<SourceLimits> = {},
    signal: AbortSignal = new AbortController().signal,
  ): Promise<GitCheckout & { tree: Record<string, string> }> {
    await mkdir(this.target, { recursive: true });
    const done = await this.git.checkout(
      remote,
      { commit: what.commit, ref: what.ref },
      this.target,
      { bytesMax: 64 * 2 ** 20, filesMax: 10_000, ...limits },
      signal,
    );
    return { ...done, tree: await readTree(this.target) };
  }

  /** Lists the files that completed calls have left behind. The list should be empty. */
  async leftovers(): Promise<string[]> {
    const work = await readdir(path.join(this.root, "state", "work")).catch(() => []);
    return [...work, ...Object.keys(await readTree(this.target))];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
  }
}

/**
 * Returns the content of each path: `-> TARGET` for a link, `dir` for an empty folder, and a `*` after the path of
 * an executable file.
 */
async function readTree(dir: string, below = ""): Promise<Record<string, string>> {
  const tree: Record<string, string> = {};
  const names = await readdir(path.join(dir, below)).catch(() => []);
  if (names.length === 0 && below !== "") tree[below] = "dir";
  for (const name of names) {
    const at = path.join(below, name);
    const file = path.join(dir, at);
    const stats = await lstat(file);
    if (stats.isSymbolicLink()) tree[at] = `-> ${await readlink(file)}`;
    else if (stats.isDirectory()) Object.assign(tree, await readTree(dir, at));
    else tree[stats.mode & 0o111 ? `${at}*` : at] = await readFile(file, "utf8");
  }
  return tree;
}

/** Returns the BerthError with which the call rejects. */
export async function captureBerthError(work: Promise<unknown>): Promise<BerthError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof BerthError) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

export const neverAborted: AbortSignal = new AbortController().signal;
