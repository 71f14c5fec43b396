import { spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import path from "node:path";

/** The changes of a commit by path. Text or bytes are the content of a plain file, and null removes the file. */
export type FileChange =
  | string
  | Buffer
  | null
  | { readonly content: string | Buffer; readonly executable: true }
  | { readonly link: string }
  | { readonly submodule: string };

/** One raw entry of a tree, so that a test can write entries that git itself would refuse. */
export interface RawTreeEntry {
  readonly mode: "100644" | "100755" | "120000" | "40000" | "160000" | (string & {});
  readonly name: string | Buffer;
  readonly oid: string;
}

const WHO = "Test <test@berth.test>";
/**
 * The environment of git. It disables git's prompts, and the settings of the machine and of the user who runs the
 * tests.
 */
const ENVIRONMENT = {
  PATH: process.env["PATH"],
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
  GIT_AUTHOR_NAME: "Test",
  GIT_AUTHOR_EMAIL: "test@berth.test",
  GIT_COMMITTER_NAME: "Test",
  GIT_COMMITTER_EMAIL: "test@berth.test",
};

/** Bare repositories in one folder. The machine's git writes them, and test servers serve them. */
export class GitRepositories {
  readonly dir: string;

  constructor(dir: string) {
    this.dir = dir;
  }

  /** Creates an empty bare repository whose HEAD is the branch main. */
  async create(name: string): Promise<void> {
    const dir = this.path(name);
    await mkdir(dir, { recursive: true });
    await this.git(name, ["init", "--quiet", "--bare", "--initial-branch=main", dir]);
  }

  path(name: string): string {
    return path.join(this.dir, `${name}.git`);
  }

  /** Adds a commit to a branch (default main, created if missing); returns its hash. */
  async commit(
    name: string,
    changes: Readonly<Record<string, FileChange>>,
    options: { branch?: string; message?: string } = {},
  ): Promise<string> {
    const branch = `refs/heads/${options.branch ?? "main"}`;
    const parent = await this.git(name, ["rev-parse", "--quiet", "--verify", branch]).catch(
      () => undefined,
    );
    const message = Buffer.from(options.message ?? "A change");
    const parts: (string | Buffer)[] = [
      `commit ${branch}\ncommitter ${WHO} ${Math.floor(Date.now() / 1000)} +0000\n`,
      ...data(message),
    ];
    if (parent) parts.push(`from ${parent}\n`);
    for (const [file, change] of Object.entries(changes)) parts.push(...fastImport(file, change));
    parts.push("\ndone\n");
    await this.git(name, ["fast-import", "--quiet", "--done", "--force"], joined(parts));
    return this.git(name, ["rev-parse", branch]);
  }

  /** Creates a branch at a commit, or moves an existing one. */
  async branch(name: string, branch: string, commit: string): Promise<void> {
    await this.git(name, ["update-ref", `refs/heads/${branch}`, commit]);
  }

  /**
   * Creates a tag at a commit (default: the end of main): an annotated tag if a message is passed, and otherwise a
   * lightweight tag.
   */
  async tag(
    name: string,
    tag: string,
    options: { commit?: string; message?: string } = {},
  ): Promise<void> {
    const how = options.message === undefined ? [] : ["-a", "-m", options.message];
    await this.git(name, ["tag", "--force", ...how, tag, options.commit ?? "refs/heads/main"]);
  }

  /** Writes a blob with this content into the repository, and returns its hash. */
  blob(name: string, content: string | Buffer): Promise<string> {
    return this.git(name, ["hash-object", "-w", "--stdin"], content);
  }

  /** Writes a tree with exactly these entries, in this order, without git's checks. */
  tree(name: string, entries: readonly RawTreeEntry[]): Promise<string> {
    const raw = entries.flatMap(({ mode, name: entry, oid }) => [
      `${mode} `,
      entry,
      "\0",
      Buffer.from(oid, "hex"),
    ]);
    const how = ["hash-object", "-t", "tree", "-w", "--stdin", "--literally"];
    return this.git(name, how, joined(raw));
  }

  /** Creates a commit of a tree, and moves the branch to the commit. */
  async commitTree(name: string, tree: string, branch = "main"): Promise<string> {
    const commit = await this.git(name, ["commit-tree", "-m", "A tree", tree]);
    await this.branch(name, branch, commit);
    return commit;
  }

  /** Runs a git command in a repository, and returns its trimmed output. Throws if git fails. */
  git(name: string, args: readonly string[], input: string | Buffer = ""): Promise<string> {
    return new Promise((resolve, reject) => {
      const child = spawn("git", ["--git-dir", this.path(name), ...args], { env: ENVIRONMENT });
      const out: Buffer[] = [];
      const err: Buffer[] = [];
      child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
      child.stderr.on("data", (chunk: Buffer) => err.push(chunk));
      child.stdin.on("error", () => {}); // If git ends before it has read its input, its exit code shows the reason.
      child.on("error", reject);
      child.on("close", (code) => {
        if (code === 0) resolve(Buffer.concat(out).toString("utf8").trim());
        else reject(new Error(`git ${args[0]}: ${Buffer.concat(err).toString("utf8").trim()}`));
      });
      child.stdin.end(input);
    });
  }
}

function fastImport(file: string, change: FileChange): (string | Buffer)[] {
  const quoted = `"${file.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
  if (change === null) return [`D ${quoted}\n`];
  if (typeof change === "string" || Buffer.isBuffer(change))
    return [`M 100644 inline ${quoted}\n`, ...data(change)];
  if ("link" in change) return [`M 120000 inline ${quoted}\n`, ...data(change.link)];
  if ("submodule" in change) return [`M 160000 ${change.submodule} ${quoted}\n`];
  return [`M 100755 inline ${quoted}\n`, ...data(change.content)];
}

function data(content: string | Buffer): (string | Buffer)[] {
  return [`data ${Buffer.byteLength(content)}\n`, content, "\n"];
}

function joined(parts: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat(
    parts.map((part) => (typeof part === "string" ? Buffer.from(part, "utf8") : part)),
  );
}
