import { mkdir, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BerthError } from "../../base/errors.ts";
import {
  commitNotFound,
  getErrorCode,
  gitUnreachable,
  invalidTree,
  repositoryTooLarge,
} from "./git-errors.ts";
import { GitExitError, GitNotInstalledError, GitProcess } from "./git-process.ts";
import { chooseRef, expandRefNames, type ListedRef, type ResolvedRef } from "./git-refs.ts";
import { classifyStderr, isDiskFull, isMissingRef } from "./git-stderr.ts";
import type { IdleTimeout } from "./idle-timer.ts";
import { ObjectBatchReader } from "./object-batch-reader.ts";
import { joinEntryPath, parseEntryType, type TreeEntry } from "./tree-entries.ts";
import type { CommitFiles } from "./tree-writer.ts";

export interface MachineGitOptions {
  /** The URL for git; never with a password. */
  readonly address: string;
  readonly displayUrl: string;
  /** The value of the Authorization header, `Basic …`, for http(s). */
  readonly authorization?: string | undefined;
  readonly ssh?:
    | { readonly privateKey: string; readonly knownHosts: string | undefined }
    | undefined;
  /** The known_hosts file to which new hosts are added. */
  readonly knownHostsFile: string;
  /** An empty folder for this call, which the caller removes. */
  readonly scratch: string;
  readonly searchPath: string;
  readonly idleTimeout: IdleTimeout;
}

/**
 * The depths to which a branch is fetched to find a commit, if the server does not send a commit by its hash.
 * isomorphic-git.ts uses the same depths.
 */
const DEPTHS = [64, 1024, undefined];
/** The maximum output of `git ls-remote` for at most two refs, in characters. */
const LISTING_CHARS_MAX = 65_536;
const CONNECT_S = 20;

/** One repository, read with the machine's git. */
export class MachineGit implements AsyncDisposable {
  readonly #options: MachineGitOptions;
  readonly #signal: AbortSignal;
  readonly #env: Record<string, string>;
  #objectReader: ObjectBatchReader | undefined;

  /**
   * Opens a repository for the machine's git, and writes the SSH key into the scratch folder. The caller disposes of
   * the result before it removes that folder, because git processes use the folder until then.
   */
  static async open(options: MachineGitOptions, signal: AbortSignal): Promise<MachineGit> {
    const { scratch, ssh } = options;
    if (ssh) {
      // A final newline is added, because a Secret easily loses it, and ssh refuses a key without it.
      const key = `${ssh.privateKey.replaceAll("\r\n", "\n").trimEnd()}\n`;
      await writeFile(join(scratch, "key"), key, { mode: 0o600 });
      const known = join(scratch, "known_hosts");
      if (ssh.knownHosts === undefined) await symlink(options.knownHostsFile, known);
      else await writeFile(known, `${ssh.knownHosts.trimEnd()}\n`, { mode: 0o600 });
    }
    await mkdir(join(scratch, "empty"));
    return new MachineGit(options, signal);
  }

  private constructor(options: MachineGitOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
    this.#env = { ...buildSshEnvironment(options), ...buildTokenEnvironment(options) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#objectReader?.[Symbol.asyncDispose]();
  }

  async find(ref: string | undefined): Promise<ResolvedRef | undefined> {
    const names = expandRefNames(ref);
    const patterns = names.flatMap((name) => [name, `${name}^{}`]);
    const text = await this.#run(
      ["ls-remote", "--quiet", "--", this.#options.address, ...patterns],
      LISTING_CHARS_MAX,
    );
    return chooseRef(parseListedRefs(text), names);
  }

  /**
   * Fetches the files of a commit, as IsomorphicGit.fetch does. Throws payload_too_large if the fetched objects need
   * more than `transferBytesMax` on the disk.
   */
  async fetch(
    what: { readonly commit: string; readonly ref: string | undefined },
    transferBytesMax: number,
  ): Promise<CommitFiles> {
    await this.#run(["init", "--quiet", "--bare", "--template=empty", "repository"]);
    if (!(await this.#fetchOne(what.commit, 1, what.commit, transferBytesMax))) {
      const tip = await this.find(what.ref === what.commit ? undefined : what.ref);
      if (!tip || !(await this.#deepen(tip.name, what.commit, transferBytesMax)))
        throw commitNotFound(this.#options.displayUrl, what.commit);
    }
    this.#objectReader = new ObjectBatchReader(this.#start(["cat-file", "--batch"]));
    return {
      entries: () => this.#entries(what.commit),
      content: (entry) => this.#content(entry),
    };
  }

  async #deepen(ref: string, commit: string, transferBytesMax: number): Promise<boolean> {
    for (const depth of DEPTHS)
      if (await this.#fetchOne(ref, depth, commit, transferBytesMax)) return true;
    return false;
  }

  /** Fetches the history to the given depth. Returns true if the commit exists afterwards. */
  async #fetchOne(
    name: string,
    depth: number | undefined,
    commit: string,
    transferBytesMax: number,
  ): Promise<boolean> {
    const packs = join(this.#options.scratch, "repository", "objects", "pack");
    const deep = depth === undefined ? ["--unshallow"] : [`--depth=${depth}`];
    try {
      await this.#run(
        [
          "fetch",
          "--progress",
          "--no-tags",
          "--no-write-fetch-head",
          "--no-auto-gc",
          ...deep,
          "--",
          this.#options.address,
          name,
        ],
        LISTING_CHARS_MAX,
        async () => {
          if ((await measureFolderBytes(packs)) > transferBytesMax)
            throw repositoryTooLarge("transfer", transferBytesMax);
        },
      );
    } catch (error) {
      if (error instanceof GitExitError) {
        if (isMissingRef(error.stderr)) return false;
        // git reports this error if an earlier fetch has already fetched the whole history, so another fetch cannot
        // find the commit.
        if (depth === undefined && /unshallow on a complete repository/.test(error.stderr))
          return false;
      }
      throw this.#translateError(error);
    }
    if ((await measureFolderBytes(packs)) > transferBytesMax)
      throw repositoryTooLarge("transfer", transferBytesMax);
    try {
      await this.#runRaw(["cat-file", "-e", `${commit}^{commit}`]);
      return true;
    } catch (error) {
      if (error instanceof GitExitError) return false;
      throw error;
    }
  }

  async *#entries(commit: string): AsyncGenerator<TreeEntry> {
    await using listing = this.#start(["ls-tree", "-r", "-t", "-z", "--full-tree", commit]);
    let rest: Buffer = Buffer.alloc(0);
    try {
      for await (const chunk of listing.output()) {
        rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
        let end = rest.indexOf(0);
        let at = 0;
        for (; end >= 0; end = rest.indexOf(0, at)) {
          yield parseListedEntry(rest.toString("utf8", at, end));
          at = end + 1;
        }
        rest = rest.subarray(at);
      }
    } catch (error) {
      throw error instanceof GitExitError
        ? invalidTree("a tree of the commit is damaged or missing")
        : error;
    }
  }

  #content(entry: TreeEntry): AsyncIterable<Uint8Array> {
    if (!this.#objectReader) throw new Error("nothing has been fetched");
    return this.#objectReader.readBlob(entry.oid);
  }

  async #run(
    args: readonly string[],
    charsMax = LISTING_CHARS_MAX,
    watch?: () => Promise<void>,
  ): Promise<string> {
    try {
      return await this.#runRaw(args, charsMax, watch);
    } catch (error) {
      // The error of `git fetch` is not converted, because the caller has to examine git's output first.
      throw args[0] === "fetch" ? error : this.#translateError(error);
    }
  }

  async #runRaw(
    args: readonly string[],
    charsMax = LISTING_CHARS_MAX,
    watch?: () => Promise<void>,
  ): Promise<string> {
    await using child = this.#start(args, watch);
    child.endInput();
    return await child.readText(charsMax);
  }

  #start(args: readonly string[], watch?: () => Promise<void>): GitProcess {
    const { scratch, searchPath, idleTimeout: waits } = this.#options;
    const needsNoRepository = args[0] === "init" || args[0] === "ls-remote";
    const isNetworked = args[0] === "fetch" || args[0] === "ls-remote";
    return new GitProcess(
      {
        args: needsNoRepository ? args : ["--git-dir=repository", ...args],
        cwd: scratch,
        env: this.#env,
        searchPath,
        ...(isNetworked ? { idleTimeout: waits } : {}),
        ...(watch ? { watch } : {}),
      },
      this.#signal,
    );
  }

  #translateError(error: unknown): unknown {
    const { displayUrl: shown } = this.#options;
    if (this.#signal.aborted) return this.#signal.reason;
    if (error instanceof GitExitError) {
      if (isDiskFull(error.stderr))
        return new BerthError("disk_full", "there is no space left to fetch the repository", {
          hint: "free some space; Berth will try again",
        });
      return classifyStderr(shown, error.stderr);
    }
    if (error instanceof GitNotInstalledError)
      return new BerthError(
        "git_unreachable",
        `${shown} cannot be fetched: ${this.#options.ssh ? "a fetch over ssh" : "a repository of this size"} needs git, which is not installed on this machine`,
        { hint: "install git (Debian: apt-get install git openssh-client)", cause: error },
      );
    if (error instanceof BerthError || getErrorCode(error) !== undefined) return error;
    return gitUnreachable(shown, error instanceof Error ? error.message : "git failed", error);
  }
}

/**
 * Builds the environment for ssh with names relative to the scratch folder, so that no shell parses a path of the
 * machine.
 */
function buildSshEnvironment({ ssh }: MachineGitOptions): Record<string, string> {
  const options = [
    "BatchMode=yes",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "UserKnownHostsFile=known_hosts",
    "GlobalKnownHostsFile=none",
    `StrictHostKeyChecking=${ssh?.knownHosts === undefined ? "accept-new" : "yes"}`,
    "UpdateHostKeys=no",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    `ConnectTimeout=${CONNECT_S}`,
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "LogLevel=ERROR",
  ];
  const command = [
    "ssh",
    "-F",
    "none",
    "-i",
    "key",
    ...options.flatMap((option) => ["-o", option]),
  ];
  return { GIT_SSH_COMMAND: command.join(" "), GIT_SSH_VARIANT: "ssh" };
}

/**
 * Builds the environment variables that pass the authorization header to git. Only this user can read the environment
 * of a process, while every user can read its arguments.
 */
function buildTokenEnvironment({ authorization }: MachineGitOptions): Record<string, string> {
  if (authorization === undefined) return {};
  return {
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "http.extraHeader",
    GIT_CONFIG_VALUE_0: `Authorization: ${authorization}`,
  };
}

/** Parses `OID TAB NAME`, and for an annotated tag a second line with `^{}` after the name. */
function parseListedRefs(text: string): ListedRef[] {
  const refs = new Map<string, ListedRef>();
  for (const line of text.split("\n")) {
    const [oid, listed] = line.split("\t");
    if (!oid || !listed) continue;
    const name = listed.replace(/\^\{\}$/, "");
    const known = refs.get(name);
    refs.set(name, known ? { ...known, peeled: oid } : { name, oid });
  }
  return [...refs.values()];
}

/** Parses `MODE SP TYPE SP OID TAB PATH`. */
function parseListedEntry(line: string): TreeEntry {
  const tab = line.indexOf("\t");
  const [mode = "", , oid = ""] = line.slice(0, tab).split(" ");
  let path = "";
  for (const part of line.slice(tab + 1).split("/")) path = joinEntryPath(path, part);
  return { type: parseEntryType(mode), path, oid };
}

async function measureFolderBytes(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(folder).catch(() => [])) {
    const file = await stat(join(folder, name)).catch(() => undefined);
    bytes += file?.size ?? 0;
  }
  return bytes;
}
