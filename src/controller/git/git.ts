import { randomUUID } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "../../base/clock.ts";
import { gitDenied, refNotFound, repositoryTooLarge, translateDiskError } from "./git-errors.ts";
import { GitHttp, TransferTooLargeError } from "./git-http.ts";
import { isRefName, parseFullCommit, type ResolvedRef } from "./git-refs.ts";
import { type GitUrl, parseGitUrl } from "./git-url.ts";
import type { IdleTimeout } from "./idle-timer.ts";
import { IsomorphicGit } from "./isomorphic-git.ts";
import { MachineGit } from "./machine-git.ts";
import type { GitCheckout, GitClient, GitCredential, GitRepository, SourceLimits } from "./port.ts";
import { writeTree } from "./tree-writer.ts";

export interface GitOptions {
  /**
   * The folder for the known hosts and for fetches in progress. Berth uses it for nothing else, and creates it if it
   * is missing.
   */
  readonly dir: string;
  /** The folders in which `git` and `ssh` are looked up, in the format of PATH. */
  readonly searchPath?: string;
  /** The longest time without data from a server. */
  readonly idleMs?: number;
  readonly clock?: Clock;
  /** The largest pack, in bytes, for isomorphic-git, which uses about five times as much memory. */
  readonly memoryPackBytesMax?: number;
}

const SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const IDLE_MS = 60_000;
/**
 * The limit of a pack that is read in memory. Incompressible files were measured: a pack of 10 MB used 70 MB of
 * memory, 50 MB used 235 MB, and 200 MB used 910 MB with pauses of 1.8 s. git itself uses 200 MB for the last one, in
 * a separate process.
 */
const MEMORY_PACK_BYTES_MAX = 32 * 2 ** 20;
/**
 * The limits, in bytes, for the unpacked objects of a pack that is read in memory: for one object, and for the sum of
 * all. Only one object is in memory at a time.
 */
const MEMORY_OBJECT_BYTES_MAX = 32 * 2 ** 20;
const MEMORY_TOTAL_BYTES_MAX = 2 ** 30;
/** The number of bytes for trees and commits by which a fetch may exceed the limit for files. */
const TRANSFER_SLACK_BYTES = 16 * 2 ** 20;
/** The maximum number of repositories that are remembered as too large to be read in memory. */
const LARGE_MAX = 256;
/** The limit of a decompressed list of refs: about 300,000 of them. */
const LISTING_BYTES_MAX = 32 * 2 ** 20;

/**
 * Reads repositories: over http(s) with isomorphic-git, over ssh with the machine's git and a deploy key. If a
 * repository over http(s) is too large for memory, the machine's git fetches it too; a private certificate authority
 * must then be known to the machine, and not only be named in NODE_EXTRA_CA_CERTS.
 *
 * A token is sent as the password of HTTP basic authentication. GitHub, GitLab and Gitea accept any user name with a
 * token, so Berth sends `x-access-token`, which GitHub documents; for bitbucket.org it sends `x-token-auth`. A
 * `username` in the credential takes precedence, because GitLab's deploy tokens, Bitbucket's app passwords and Azure
 * DevOps' tokens need a certain user name.
 *
 * A wait for a server ends after `idleMs` of silence; the caller's signal ends the whole call.
 */
export class Git implements GitClient {
  readonly #dir: string;
  readonly #searchPath: string;
  readonly #idleTimeout: IdleTimeout;
  readonly #memoryPackBytesMax: number;
  /** Repositories that turned out to be too large to be read in memory. The machine's git fetches them directly. */
  readonly #largeRepositories = new Set<string>();
  #ready: Promise<void> | undefined;

  constructor(options: GitOptions) {
    this.#dir = options.dir;
    this.#searchPath = options.searchPath ?? SEARCH_PATH;
    this.#idleTimeout = { clock: options.clock ?? systemClock, idleMs: options.idleMs ?? IDLE_MS };
    this.#memoryPackBytesMax = options.memoryPackBytesMax ?? MEMORY_PACK_BYTES_MAX;
  }

  /** Removes files that a killed process has left, such as deploy keys. Called when Berth starts. */
  async start(): Promise<void> {
    this.#ready ??= this.#prepare();
    await this.#ready;
  }

  async resolve(
    repository: GitRepository,
    ref: string | undefined,
    signal: AbortSignal,
  ): Promise<string> {
    const url = parseGitUrl(repository.url);
    const commit = parseFullCommit(ref);
    if (commit !== undefined) return commit;
    if (ref !== undefined && !isRefName(ref)) throw refNotFound(url.displayUrl, ref);
    const found = await this.#findRef(url, repository.credential, ref, signal);
    if (!found) throw refNotFound(url.displayUrl, ref);
    return found.commit;
  }

  async checkout(
    repository: GitRepository,
    what: { readonly commit: string; readonly ref: string | undefined },
    dir: string,
    limits: SourceLimits,
    signal: AbortSignal,
  ): Promise<GitCheckout> {
    const url = parseGitUrl(repository.url);
    const commit = parseFullCommit(what.commit);
    if (commit === undefined || (what.ref !== undefined && !isRefName(what.ref)))
      throw refNotFound(url.displayUrl, what.ref ?? what.commit);
    const wanted = { commit, ref: what.ref };
    try {
      await using scratch = await this.#createScratch();
      if (url.transport === "ssh")
        return await this.#runOverSsh(
          url,
          repository.credential,
          scratch.path,
          signal,
          async (git) =>
            writeTree(await git.fetch(wanted, computeTransferMax(limits)), dir, limits, signal),
        );
      return await this.#checkoutOverHttp(
        url,
        repository.credential,
        wanted,
        scratch.path,
        dir,
        limits,
        signal,
      );
    } catch (error) {
      signal.throwIfAborted();
      throw translateDiskError(error);
    }
  }

  async #findRef(
    url: GitUrl,
    credential: GitCredential | undefined,
    ref: string | undefined,
    signal: AbortSignal,
  ): Promise<ResolvedRef | undefined> {
    try {
      if (url.transport === "http") {
        using http = this.#openHttp(url, credential, LISTING_BYTES_MAX, signal);
        return await new IsomorphicGit(http, url.displayUrl).find(ref);
      }
      await using scratch = await this.#createScratch();
      return await this.#runOverSsh(url, credential, scratch.path, signal, (git) => git.find(ref));
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof TransferTooLargeError)
        throw repositoryTooLarge("transfer", LISTING_BYTES_MAX);
      throw translateDiskError(error);
    }
  }

  async #checkoutOverHttp(
    url: GitUrl,
    credential: GitCredential | undefined,
    what: { readonly commit: string; readonly ref: string | undefined },
    scratch: string,
    dir: string,
    limits: SourceLimits,
    signal: AbortSignal,
  ): Promise<GitCheckout> {
    const transferBytesMax = computeTransferMax(limits);
    using http = this.#openHttp(
      url,
      credential,
      Math.min(this.#memoryPackBytesMax, transferBytesMax),
      signal,
    );
    try {
      const git = new IsomorphicGit(http, url.displayUrl);
      if (this.#largeRepositories.has(url.address)) {
        // Follows redirects before the machine's git is called, because that git must not follow them itself.
        await git.find(undefined);
      } else {
        const gitdir = join(scratch, "small");
        await mkdir(gitdir);
        const memory = {
          objectBytesMax: MEMORY_OBJECT_BYTES_MAX,
          totalBytesMax: MEMORY_TOTAL_BYTES_MAX,
        };
        return await writeTree(await git.fetch(what, gitdir, memory, signal), dir, limits, signal);
      }
    } catch (error) {
      if (!(error instanceof TransferTooLargeError)) throw error;
      if (transferBytesMax <= this.#memoryPackBytesMax)
        throw repositoryTooLarge("transfer", transferBytesMax);
      this.#rememberLarge(url.address);
    }
    const machine = join(scratch, "large");
    await mkdir(machine);
    // The address is the URL after redirects. The credentials are sent only if they belong to the server of this URL.
    const { base, authorization } = http;
    await using git = await MachineGit.open(
      { ...this.#buildMachineOptions(url, machine), address: base, authorization },
      signal,
    );
    return await writeTree(await git.fetch(what, transferBytesMax), dir, limits, signal);
  }

  #rememberLarge(address: string): void {
    if (this.#largeRepositories.size >= LARGE_MAX) this.#largeRepositories.clear();
    this.#largeRepositories.add(address);
  }

  async #runOverSsh<T>(
    url: GitUrl,
    credential: GitCredential | undefined,
    scratch: string,
    signal: AbortSignal,
    work: (git: MachineGit) => Promise<T>,
  ): Promise<T> {
    if (credential?.type !== "sshKey")
      throw gitDenied(
        url.displayUrl,
        credential
          ? "an ssh server does not accept a token"
          : "an ssh server requires a deploy key",
        "make a Secret with the key sshKey, and name it in credential; or use the https URL",
      );
    const ssh = { privateKey: credential.privateKey, knownHosts: credential.knownHosts };
    await using git = await MachineGit.open(
      { ...this.#buildMachineOptions(url, scratch), ssh },
      signal,
    );
    return await work(git);
  }

  #buildMachineOptions(url: GitUrl, scratch: string) {
    return {
      address: url.address,
      displayUrl: url.displayUrl,
      scratch,
      knownHostsFile: join(this.#dir, "known_hosts"),
      searchPath: this.#searchPath,
      idleTimeout: this.#idleTimeout,
    };
  }

  #openHttp(
    url: GitUrl,
    credential: GitCredential | undefined,
    bytesMax: number,
    signal: AbortSignal,
  ): GitHttp {
    if (credential?.type === "sshKey")
      throw gitDenied(
        url.displayUrl,
        "an https server does not accept an ssh key",
        "make a Secret with the key token, or use the ssh URL",
      );
    const login = credential
      ? { username: credential.username ?? defaultUsername(url), password: credential.token }
      : url.login;
    return new GitHttp({ url, login, idleTimeout: this.#idleTimeout, bytesMax }, signal);
  }

  /** Creates a folder for one fetch. Removes the files of an earlier process first. */
  async #createScratch(): Promise<{ path: string } & AsyncDisposable> {
    await this.start();
    const path = join(this.#workDir, randomUUID());
    await mkdir(path, { mode: 0o700 });
    return {
      path,
      [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 3 }),
    };
  }

  async #prepare(): Promise<void> {
    try {
      await mkdir(this.#workDir, { recursive: true, mode: 0o700 });
      for (const name of await readdir(this.#workDir))
        await rm(join(this.#workDir, name), { recursive: true, force: true });
    } catch (error) {
      this.#ready = undefined;
      throw error;
    }
  }

  get #workDir(): string {
    return join(this.#dir, "work");
  }
}

function computeTransferMax(limits: SourceLimits): number {
  return limits.bytesMax + TRANSFER_SLACK_BYTES;
}

function defaultUsername(url: GitUrl): string {
  return new URL(url.address).hostname === "bitbucket.org" ? "x-token-auth" : "x-access-token";
}
