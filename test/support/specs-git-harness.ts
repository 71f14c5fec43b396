import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { BerthError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/logger.ts";
import type { SpecsGitSettings } from "../../src/config/config.ts";
import type {
  GitCheckout,
  GitClient,
  GitRepository,
  SourceLimits,
} from "../../src/controller/git/port.ts";
import { SpecFolder } from "../../src/controller/specs/spec-folder.ts";
import { SpecsGitFollower } from "../../src/controller/specs/specs-git-follower.ts";
import { openTestStore } from "./test-store.ts";

/** An in-memory repository. Its commits contain files by path, and a link has the form `{ link }`. */
export class FakeGitClient implements GitClient {
  files: Record<string, string | { readonly link: string }> = {};
  commit = "a".repeat(40);
  /** If set, `resolve` and `checkout` fail with this error. */
  failure: Error | undefined;
  /** Called in the middle of each checkout. */
  onCheckout: () => Promise<void> | void = () => {};
  resolves = 0;
  checkouts = 0;
  readonly remotes: GitRepository[] = [];
  limits: SourceLimits | undefined;

  async resolve(remote: GitRepository): Promise<string> {
    this.resolves += 1;
    this.remotes.push(remote);
    if (this.failure) throw this.failure;
    return this.commit;
  }

  async checkout(
    _remote: GitRepository,
    _what: { commit: string },
    dir: string,
    limits: SourceLimits,
  ): Promise<GitCheckout> {
    this.checkouts += 1;
    this.limits = limits;
    if (this.failure) throw this.failure;
    for (const [path, content] of Object.entries(this.files)) {
      await mkdir(dirname(join(dir, path)), { recursive: true });
      if (typeof content === "string") await writeFile(join(dir, path), content);
      else await symlink(content.link, join(dir, path));
    }
    await this.onCheckout();
    return { submodules: [], files: 0, bytes: 0 };
  }

  /** Simulates a push to the repository, which makes a new commit with exactly these files. */
  push(files: FakeGitClient["files"]): void {
    this.files = files;
    this.commit = `${Number.parseInt(this.commit[0] ?? "a", 16) + 1}`.padEnd(40, "0");
  }
}

export const createUnreachableError = () =>
  new BerthError("git_unreachable", "git.example does not answer", { hint: "try later" });

/** A watched folder that follows a repository, on a clock that the test advances. */
export class SpecsGitHarness implements AsyncDisposable {
  readonly root = mkdtempSync(join(tmpdir(), "berth-specs-git-"));
  readonly folder = join(this.root, "specs");
  readonly git: GitClient;
  readonly #config: Partial<SpecsGitSettings>;
  readonly #test = openTestStore();
  #specs: SpecFolder;
  #follower: SpecsGitFollower;

  constructor(git: GitClient, config: Partial<SpecsGitSettings> = {}) {
    this.git = git;
    this.#config = config;
    [this.#specs, this.#follower] = this.#make();
  }

  get store() {
    return this.#test.store;
  }

  get clock() {
    return this.#test.clock;
  }

  get follower(): SpecsGitFollower {
    return this.#follower;
  }

  sync() {
    return this.#follower.sync(new AbortController().signal);
  }

  async write(path: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.folder, path)), { recursive: true });
    await writeFile(join(this.folder, path), text);
  }

  read(path: string): Promise<string> {
    return readFile(join(this.folder, path), "utf8");
  }

  /** Lists the paths of all files below the watched folder, including hidden files. */
  async files(): Promise<string[]> {
    const entries = await readdir(this.folder, { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(this.folder.length + 1))
      .toSorted();
  }

  async marker(folder = "shop"): Promise<Record<string, unknown>> {
    return JSON.parse(await this.read(`${folder}/.berth-git.json`));
  }

  /**
   * Scans the watched folder twice. At the second scan, enough time has passed to confirm that resources are missing.
   */
  async scanTwice(): Promise<void> {
    await this.#specs.rescan();
    await this.clock.advance(1_000);
    await this.#specs.rescan();
  }

  /** Lists the names of all Apps that are not being deleted. */
  get apps(): string[] {
    return this.store
      .list("App")
      .filter(({ metadata }) => metadata.deletionTimestamp === null)
      .map(({ metadata }) => metadata.name);
  }

  /** Lists the messages of all events with this reason, oldest first. */
  events(reason: string): string[] {
    return this.store.events
      .list({ limit: 1000 })
      .filter((event) => event.reason === reason)
      .map(({ message }) => message)
      .toReversed();
  }

  fileStates(): Record<string, string> {
    return Object.fromEntries(this.#specs.report().files.map(({ file, state }) => [file, state]));
  }

  async restart(): Promise<void> {
    await this.#end();
    await this.#test.reopen();
    [this.#specs, this.#follower] = this.#make();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
    await this.#test[Symbol.asyncDispose]();
    rmSync(this.root, { recursive: true, force: true });
  }

  async #end(): Promise<void> {
    await this.#follower[Symbol.asyncDispose]();
    await this.#specs[Symbol.asyncDispose]();
  }

  #make(): [SpecFolder, SpecsGitFollower] {
    const { store, clock } = this.#test;
    const shared = { folder: this.folder, store, clock, logger: silentLogger };
    const specs = new SpecFolder({
      ...shared,
      admission: { baseDomain: "localhost", apiDomain: undefined, reservedPorts: [] },
    });
    const follower = new SpecsGitFollower({
      ...shared,
      git: this.git,
      tempDir: join(this.root, "checkouts"),
      config: {
        url: "https://git.example/team/shop.git",
        ref: "main",
        path: ".",
        intervalMs: 60_000,
        credential: undefined,
        ...this.#config,
      },
      random: () => 1,
      rescan: () => specs.rescan(),
    });
    return [specs, follower];
  }
}
