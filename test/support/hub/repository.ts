import { createHash, randomUUID } from "node:crypto";
import { bufferContent, type Content, type GivenContent, loadContent } from "./content.ts";

export interface GivenFile {
  readonly content: GivenContent;
  /** Whether it is in LFS; default: what a hub's .gitattributes puts there, by its name. */
  readonly lfs?: boolean;
}

export type GivenFiles = Readonly<Record<string, GivenContent | GivenFile>>;

export interface RepositoryOptions {
  /** `org/name` */
  readonly id: string;
  /** Of the first commit, on main. */
  readonly files: GivenFiles;
  /** Names of tags for the first commit. */
  readonly tags?: readonly string[];
  /** Listed for everybody; its files are for those whose request was granted. */
  readonly gated?: "auto" | "manual";
  /** Nobody without access can tell it from one that is not there. */
  readonly private?: boolean;
  /** Whether the hub's token has access; default: for private ones, and not for gated ones. */
  readonly authorised?: boolean;
}

export interface RepositoryFile {
  readonly name: string;
  readonly content: Content;
  readonly lfs: boolean;
  /** The git object: of the bytes, or of the pointer that stands for them. */
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
  /** Taken down by the hub: nobody gets anything. */
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

  /** The new head of a branch, with these files and no others. Returns its 40 digits. */
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

  /** The commit that a branch, a tag, or the beginning of a commit (7 digits or more) stands for. */
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

/** Of what a new repository's .gitattributes sends to LFS, the endings that tests meet. */
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
