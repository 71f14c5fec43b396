import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rmdir,
  stat,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import git, { type HttpClient, type PromiseFsClient, type ServerRef } from "isomorphic-git";
import { BerthError, isDiskFull } from "../../base/errors.ts";
import { commitNotFound, getErrorCode, gitUnreachable, invalidTree } from "./git-errors.ts";
import { type GitHttp, TransferTooLargeError } from "./git-http.ts";
import { chooseRef, expandRefNames, type ListedRef, type ResolvedRef } from "./git-refs.ts";
import { isPackWithinLimits, type PackLimits } from "./pack-scan.ts";
import { parseTree, type TreeEntry } from "./tree-entries.ts";
import type { CommitFiles } from "./tree-writer.ts";

/**
 * The depths of successive fetches of a branch, until one of them contains the wanted commit. They are needed if the
 * server sends the commit only as part of a branch.
 */
const DEPTHS = [64, 1024, undefined];

/** One repository over http(s), read with isomorphic-git through `http`. */
export class IsomorphicGit {
  readonly #http: GitHttp;
  readonly #displayUrl: string;

  constructor(http: GitHttp, displayUrl: string) {
    this.#http = http;
    this.#displayUrl = displayUrl;
  }

  /**
   * Resolves `ref` to a commit; undefined if the server has no such ref. Requests only a few names, because some
   * repositories have 100,000 refs.
   */
  async find(ref: string | undefined): Promise<ResolvedRef | undefined> {
    const names = expandRefNames(ref);
    for (const name of names) {
      const refs = await this.#guarded(() =>
        git.listServerRefs({
          http: this.#client,
          url: this.#url,
          prefix: name,
          peelTags: true,
        }),
      );
      const chosen = chooseRef(refs.map(toListedRef), [name]);
      if (chosen) return chosen;
    }
    return undefined;
  }

  /**
   * Fetches the commit into `gitdir`, an empty folder. Fetches it by its hash. If the server does not allow that,
   * fetches as much history of `ref` as needed. `limits` apply to the unpacked pack. Throws TransferTooLargeError if
   * these limits or those of `http` are exceeded.
   */
  async fetch(
    what: { readonly commit: string; readonly ref: string | undefined },
    gitdir: string,
    limits: PackLimits,
    signal: AbortSignal,
  ): Promise<CommitFiles> {
    const repository = new LocalRepository(gitdir, limits, signal, this.#guarded);
    await repository.init(this.#url);
    const fetch = (ref: string, depth: number | undefined) =>
      this.#guarded(() =>
        git.fetch({
          fs: repository.fs,
          http: this.#client,
          gitdir,
          url: this.#url,
          remote: "origin",
          ref,
          remoteRef: ref,
          singleBranch: true,
          tags: false,
          ...(depth === undefined ? {} : { depth }),
        }),
      );
    await fetch(what.commit, 1);
    if (await repository.has(what.commit)) return repository.files(what.commit);
    const tip = await this.find(what.ref === what.commit ? undefined : what.ref);
    if (tip) {
      for (const depth of DEPTHS) {
        await fetch(tip.name, depth);
        if (await repository.has(what.commit)) return repository.files(what.commit);
      }
    }
    throw commitNotFound(this.#displayUrl, what.commit);
  }

  /**
   * Throws the first failure of the connection, if there is one, instead of the error that the library derives from
   * it.
   */
  readonly #guarded: GuardedCall = async (work) => {
    try {
      const result = await work();
      this.#http.throwIfFailed();
      return result;
    } catch (error) {
      this.#http.throwIfFailed();
      if (isKnownError(error)) throw error;
      throw gitUnreachable(this.#displayUrl, "its answer cannot be understood", error);
    }
  };

  get #client(): HttpClient {
    return { request: this.#http.request };
  }

  /**
   * The URL that the library gets. It stays the same after a redirect, because the HTTP client follows redirects
   * itself.
   */
  get #url(): string {
    return this.#http.address;
  }
}

type GuardedCall = <T>(work: () => Promise<T>) => Promise<T>;

class LocalRepository {
  readonly fs: PromiseFsClient;
  readonly #gitdir: string;
  readonly #guarded: GuardedCall;
  /** A cache in which isomorphic-git keeps packs and their indexes between calls. */
  readonly #cache = {};

  constructor(gitdir: string, limits: PackLimits, signal: AbortSignal, guarded: GuardedCall) {
    this.#gitdir = gitdir;
    this.#guarded = guarded;
    this.fs = createLimitedFs(limits, signal);
  }

  async init(url: string): Promise<void> {
    const { fs } = this;
    const gitdir = this.#gitdir;
    await git.init({ fs, gitdir, bare: true });
    await git.addRemote({ fs, gitdir, remote: "origin", url });
  }

  async has(commit: string): Promise<boolean> {
    try {
      const { oid } = await git.readCommit({ ...this.#location, oid: commit });
      return oid === commit;
    } catch (error) {
      if (getErrorCode(error) === "NotFoundError") return false;
      throw error;
    }
  }

  async files(commit: string): Promise<CommitFiles> {
    const read = await git.readCommit({ ...this.#location, oid: commit });
    return {
      entries: () => this.#walk(read.commit.tree, ""),
      content: (entry) => this.#content(entry),
    };
  }

  async *#walk(tree: string, folder: string): AsyncGenerator<TreeEntry> {
    for (const entry of parseTree(await this.#object(tree, "tree"), folder)) {
      yield entry;
      if (entry.type === "folder") yield* this.#walk(entry.oid, entry.path);
    }
  }

  async *#content(entry: TreeEntry): AsyncGenerator<Uint8Array> {
    yield await this.#object(entry.oid, "blob");
  }

  async #object(oid: string, type: "tree" | "blob"): Promise<Buffer> {
    const read = await this.#guarded(async () => {
      try {
        return await git.readObject({ ...this.#location, oid, format: "content" });
      } catch (error) {
        if (getErrorCode(error) === "NotFoundError")
          throw invalidTree("the server omitted a part of the commit");
        throw error;
      }
    });
    if (read.type !== type || !(read.object instanceof Uint8Array))
      throw invalidTree(`the commit refers to a ${read.type} where git expects a ${type}`);
    return Buffer.from(read.object.buffer, read.object.byteOffset, read.object.byteLength);
  }

  get #location() {
    return { fs: this.fs, gitdir: this.#gitdir, cache: this.#cache };
  }
}

/**
 * Creates the file system for isomorphic-git. The library writes a pack before it unpacks it; the file system then
 * checks if the unpacking would need too much memory.
 */
function createLimitedFs(limits: PackLimits, signal: AbortSignal): PromiseFsClient {
  const write = async (file: string, data: string | Uint8Array, options?: { mode?: number }) => {
    signal.throwIfAborted();
    if (file.endsWith(".pack") && Buffer.isBuffer(data) && !isPackWithinLimits(data, limits))
      throw new TransferTooLargeError();
    await writeFile(file, data, options);
  };
  return {
    promises: {
      readFile,
      writeFile: write,
      unlink,
      readdir,
      mkdir,
      rmdir,
      stat,
      lstat,
      readlink,
      symlink,
      chmod,
    },
  };
}

function toListedRef(ref: ServerRef): ListedRef {
  return { name: ref.ref, oid: ref.oid, peeled: ref.peeled };
}

function isKnownError(error: unknown): boolean {
  return error instanceof BerthError || error instanceof TransferTooLargeError || isDiskFull(error);
}
