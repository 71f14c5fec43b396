import { createHash, randomUUID } from "node:crypto";
import { bufferContent, type Content, type GivenContent, loadContent } from "./content.ts";

export interface GivenFile {
  readonly content: GivenContent;
  /** True if the file is in LFS. The default depends on the file's name, as with a hub's .gitattributes. */
  readonly lfs?: boolean;
}

export type GivenFiles = Readonly<Record<string, GivenContent | GivenFile>>;

export interface RepositoryOptions {
  /** The id of the repository: `org/name`. */
  readonly id: string;
  /** The files of the first commit on main. */
  readonly files: GivenFiles;
  /** The tags of the first commit. */
  readonly tags?: readonly string[];
  /** If set, the list of files is public, but the hub sends the files only to users who have been granted access. */
  readonly gated?: "auto" | "manual";
  /** If true, a request without access gets the same response as one for a missing repository. */
  readonly private?: boolean;
  /** True if the hub's token has access; by default it has access to private repositories, but not to gated ones. */
  readonly authorised?: boolean;
}

export interface RepositoryFile {
  readonly name: string;
  readonly content: Content;
  readonly lfs: boolean;
  /** The git object id of the bytes or, for a file in LFS, of its pointer. */
  readonly oid: string;
  readonly pointerBytes: number;
}

interface Commit {
  readonly sha: string;
  readonly files: ReadonlyMap<string, RepositoryFile>;
}

/** One model repository, with as many commits as a test needs. */
export class Repository {
  readonly id: string;
  gated: "auto" | "manual" | false;
  private: boolean;
  authorised: boolean;
  /** True if the hub has disabled the repository: all requests are refused. */
  disabled = false;
  readonly #commits = new Map<string, Commit>();
  readonly #refs = new Map<string, string>();

  static async create(options: RepositoryOptions): Promise<Repository> {
    const repository = new Repository(options);
    const commit = await repository.commit(options.files);
    for (const tag of options.tags ?? []) repository.tag(tag, commit);
    return repository;
  }

  private constructor(options: RepositoryOptions) {
    this.id = options.id;
    this.gated = options.gated ?? false;
    this.private = options.private ?? false;
    this.authorised = options.authorised ?? this.gated === false;
  }

  /** Commits exactly these files to a branch. Returns the commit's id of 40 digits. */
  async commit(files: GivenFiles, branch = "main"): Promise<string> {
    const made = new Map<string, RepositoryFile>();
    for (const [name, given] of Object.entries(files)) made.set(name, await fileOf(name, given));
    const sha = createHash("sha1").update(randomUUID()).digest("hex");
    this.#commits.set(sha, { sha, files: made });
    this.#refs.set(branch, sha);
    return sha;
  }

  tag(name: string, commit: string): void {
    this.#refs.set(name, commit);
  }

  /** Returns the commit that a branch, a tag, or a prefix of a commit's id (7 digits or more) names. */
  find(revision: string): Commit | undefined {
    const named = this.#refs.get(revision.replace(/^refs\/(heads|tags)\//, ""));
    if (named !== undefined) return this.#commits.get(named);
    if (!/^[0-9a-f]{7,40}$/.test(revision)) return undefined;
    return [...this.#commits.values()].find(({ sha }) => sha.startsWith(revision));
  }

  file(name: string, revision = "main"): RepositoryFile {
    const file = this.find(revision)?.files.get(name);
    if (!file) throw new Error(`${this.id} has no ${name}`);
    return file;
  }
}

/** The file extensions in a new repository's .gitattributes that tests use. */
const LFS_ENDING = /\.(gguf|bin|safetensors|zip|pt)$/i;

async function fileOf(name: string, given: GivenContent | GivenFile): Promise<RepositoryFile> {
  const whole: GivenFile =
    typeof given === "string" || given instanceof Uint8Array ? { content: given } : given;
  const content = await loadContent(whole.content);
  const lfs = whole.lfs ?? LFS_ENDING.test(name);
  if (!lfs) return { name, content, lfs, oid: content.gitBlob, pointerBytes: 0 };
  const pointer = Buffer.from(
    `version https://git-lfs.github.com/spec/v1\noid sha256:${content.sha256}\nsize ${content.sizeBytes}\n`,
  );
  return {
    name,
    content,
    lfs,
    oid: bufferContent(pointer).gitBlob,
    pointerBytes: pointer.length,
  };
}
