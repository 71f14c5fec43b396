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
import { BerthError } from "../../base/errors.ts";
import { badTree, codeOf, noCommit, unreachable } from "./git-failures.ts";
import { type GitHttp, TransferTooLarge } from "./git-http.ts";
import { type ChosenRef, chooseRef, fullNames, type ListedRef } from "./git-refs.ts";
import { type PackLimits, packIsModest } from "./pack-scan.ts";
import { parseTree, type TreeEntry } from "./tree-entries.ts";
import type { CommitFiles } from "./tree-writer.ts";

/** How far back a branch is fetched, step by step, to find a commit that the server hands out by branch only. */
const DEPTHS = [64, 1024, undefined];

/** One repository over http(s), read with isomorphic-git through `http`. */
export class IsomorphicGit {
  readonly #http: GitHttp;
  readonly #shown: string;

  constructor(http: GitHttp, shown: string) {
    this.#http = http;
    this.#shown = shown;
  }

  /** What `ref` names, or undefined. Asks for a few names only: some repositories have 100,000 refs. */
  async find(ref: string | undefined): Promise<ChosenRef | undefined> {
    const names = fullNames(ref);
    for (const name of names) {
      const refs = await this.#guarded(() =>
        git.listServerRefs({
          http: this.#client,
          url: this.#url,
          prefix: name,
          peelTags: true,
        }),
      );
      const chosen = chooseRef(refs.map(listed), [name]);
      if (chosen) return chosen;
    }
    return undefined;
  }

  /**
   * Fetches the commit into `gitdir`, an empty folder: by its hash, or where the server does not hand
   * that out, with as much of `ref` as it takes. `limits` are of the pack, unpacked: past them, and past
   * those of `http`, TransferTooLarge is thrown.
   */
  async fetch(
    what: { readonly commit: string; readonly ref: string | undefined },
    gitdir: string,
    limits: PackLimits,
    signal: AbortSignal,
  ): Promise<CommitFiles> {
    const repository = new Repository(gitdir, limits, signal, this.#guarded);
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
    throw noCommit(this.#shown, what.commit);
  }

  /** The first failure of a connection is what happened, whatever the library makes of it. */
  readonly #guarded: Guard = async (work) => {
    try {
      const result = await work();
      this.#http.check();
      return result;
    } catch (error) {
      this.#http.check();
      if (isOurs(error)) throw error;
      throw unreachable(this.#shown, "its answer cannot be understood", error);
    }
  };

  get #client(): HttpClient {
    return { request: this.#http.request };
  }

  /** The client follows redirects by itself. */
  get #url(): string {
    return this.#http.address;
  }
}

type Guard = <T>(work: () => Promise<T>) => Promise<T>;

class Repository {
  readonly fs: PromiseFsClient;
  readonly #gitdir: string;
  readonly #guarded: Guard;
  /** isomorphic-git keeps packs and their lists here between calls. */
  readonly #cache = {};

  constructor(gitdir: string, limits: PackLimits, signal: AbortSignal, guarded: Guard) {
    this.#gitdir = gitdir;
    this.#guarded = guarded;
    this.fs = watchedFiles(limits, signal);
  }

  async init(url: string): Promise<void> {
    const { fs } = this;
    const gitdir = this.#gitdir;
    await git.init({ fs, gitdir, bare: true });
    await git.addRemote({ fs, gitdir, remote: "origin", url });
  }

  async has(commit: string): Promise<boolean> {
    try {
      const { oid } = await git.readCommit({ ...this.#where, oid: commit });
      return oid === commit;
    } catch (error) {
      if (codeOf(error) === "NotFoundError") return false;
      throw error;
    }
  }

  async files(commit: string): Promise<CommitFiles> {
    const read = await git.readCommit({ ...this.#where, oid: commit });
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
        return await git.readObject({ ...this.#where, oid, format: "content" });
      } catch (error) {
        if (codeOf(error) === "NotFoundError") throw badTree("the server left a part of it out");
        throw error;
      }
    });
    if (read.type !== type || !(read.object instanceof Uint8Array))
      throw badTree(`it names a ${read.type} where a ${type} belongs`);
    return Buffer.from(read.object.buffer, read.object.byteOffset, read.object.byteLength);
  }

  get #where() {
    return { fs: this.fs, gitdir: this.#gitdir, cache: this.#cache };
  }
}

/**
 * The files of the repository, for isomorphic-git. It writes a pack before it unpacks it, and that is the
 * moment to see whether that would take too much memory.
 */
function watchedFiles(limits: PackLimits, signal: AbortSignal): PromiseFsClient {
  const write = async (file: string, data: string | Uint8Array, options?: { mode?: number }) => {
    signal.throwIfAborted();
    if (file.endsWith(".pack") && Buffer.isBuffer(data) && !packIsModest(data, limits))
      throw new TransferTooLarge();
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

function listed(ref: ServerRef): ListedRef {
  return { name: ref.ref, oid: ref.oid, peeled: ref.peeled };
}

function isOurs(error: unknown): boolean {
  return (
    error instanceof BerthError ||
    error instanceof TransferTooLarge ||
    ["ENOSPC", "EDQUOT"].includes(codeOf(error) ?? "")
  );
}
