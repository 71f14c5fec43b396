import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { create } from "tar";
import { vi } from "vitest";
import { BerthError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { ArchiveStore } from "../../src/controller/builds/archive-store.ts";
import {
  BuildService,
  type BuildServiceOptions,
} from "../../src/controller/builds/build-service.ts";
import type { BuildState, ResolvedSource } from "../../src/controller/builds/port.ts";
import type { GitClient, GitRepository } from "../../src/controller/git/port.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import type { Resource } from "../../src/resources/resource.ts";
import { FakeEngine } from "./fake-engine.ts";
import { FakeRuntime } from "./fake-runtime.ts";
import { applyResource, openTestStore, type TestStore } from "./test-store.ts";
import { VirtualClock } from "./virtual-clock.ts";
import { WAIT_OPTIONS } from "./wait-limits.ts";

export const REPOSITORY = "https://git.example.org/team/app.git";
export const DOCKERFILE = "FROM scratch\nCOPY . /app\n";

/** An in-memory git client. Each commit id stands for a set of files. */
export class FakeBuildGit implements GitClient {
  readonly refs = new Map([["main", createCommitId("a")]]);
  readonly files = new Map<string, Readonly<Record<string, string>>>();
  /** The symbolic links that every checkout contains, with their targets. */
  readonly links = new Map<string, string>();
  readonly remotes: GitRepository[] = [];
  submodules: readonly string[] = [];
  failure: BerthError | undefined;

  resolve(remote: GitRepository, ref: string | undefined, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    this.remotes.push(remote);
    const commit = this.refs.get(ref ?? "main");
    if (this.failure) return Promise.reject(this.failure);
    return commit === undefined
      ? Promise.reject(new BerthError("git_not_found", `there is no ${ref}`))
      : Promise.resolve(commit);
  }

  checkout(
    remote: GitRepository,
    what: { readonly commit: string },
    dir: string,
  ): Promise<{ submodules: readonly string[]; files: number; bytes: number }> {
    this.remotes.push(remote);
    if (this.failure) return Promise.reject(this.failure);
    const files = this.files.get(what.commit) ?? { Dockerfile: DOCKERFILE };
    writeFiles(dir, files);
    for (const [from, to] of this.links) symlinkSync(to, join(dir, from));
    const submodules = this.submodules;
    return Promise.resolve({ submodules, files: Object.keys(files).length, bytes: 0 });
  }
}

/** A build service with an in-memory engine, in-memory repositories and real files. */
export class BuildServiceHarness implements AsyncDisposable {
  /** The clock starts at the current time, because the times of files are those of the machine. */
  readonly clock = new VirtualClock(Date.now());
  readonly testStore: TestStore = openTestStore({ instanceId: "0123abcd", clock: this.clock });
  /** A folder for sources, which is outside of the data directory. */
  readonly sourceDir = mkdtempSync(join(tmpdir(), "berth-sources-"));
  readonly git = new FakeBuildGit();
  readonly engine = new FakeEngine(this.clock);
  runtime = new FakeRuntime({ clock: this.clock, engine: this.engine });
  readonly changedApps: string[] = [];
  readonly archives: ArchiveStore;
  service: BuildService;
  #options: Partial<BuildServiceOptions>;

  constructor(options: Partial<BuildServiceOptions> = {}) {
    this.archives = new ArchiveStore({ dir: join(this.dataDir, "archives"), bytesMax: 2 ** 20 });
    this.#options = options;
    this.service = this.newService();
  }

  get dataDir(): string {
    return this.testStore.dataDir;
  }

  get store() {
    return this.testStore.store;
  }

  get builder() {
    return this.engine.builder;
  }

  newService(options: Partial<BuildServiceOptions> = this.#options): BuildService {
    this.#options = options;
    this.service = new BuildService({
      store: this.store,
      runtime: this.runtime,
      git: this.git,
      archives: this.archives,
      clock: this.clock,
      logger: silentLogger,
      dataDir: this.dataDir,
      limits: {
        concurrency: 1,
        memoryBytes: undefined,
        nanoCpus: undefined,
        timeoutMs: 600_000,
        keep: 5,
        diskBytesMax: 2 ** 40,
      },
      freeBytesMin: 1,
      onChanged: (app) => this.changedApps.push(app),
      ...options,
    });
    return this.service;
  }

  /**
   * Simulates SIGKILL: running work is neither awaited nor cancelled. The next service finds the files and the
   * database records that this work left behind.
   */
  kill(): void {
    this.runtime.die();
    this.runtime = new FakeRuntime({ clock: this.clock, engine: this.engine });
    this.newService();
  }

  apply(
    name: string,
    spec: AppSpec = { source: { git: { url: REPOSITORY, ref: "main" } } },
    annotations: Record<string, string> = {},
  ): Resource<"App"> {
    return applyResource(this.store, "App", name, spec, { annotations });
  }

  applySecret(name: string, data: Record<string, string>, type?: "registry"): void {
    applyResource(this.store, "Secret", name, { data, ...(type ? { type } : {}) });
  }

  /** Waits until the source of the App is resolved. */
  async waitUntilResolved(app: Resource<"App">): Promise<ResolvedSource> {
    return vi.waitFor(() => {
      const state = this.service.source(app);
      if (state.type !== "resolved") throw new Error(`the source is ${JSON.stringify(state)}`);
      return state;
    }, WAIT_OPTIONS);
  }

  /** Waits until the source of the App is resolved and built, and returns the final state of the build. */
  async waitUntilBuilt(app: Resource<"App">): Promise<BuildState> {
    return this.waitUntilEnded(app, await this.waitUntilResolved(app));
  }

  async waitUntilEnded(app: Resource<"App">, source: ResolvedSource): Promise<BuildState> {
    return vi.waitFor(() => {
      const state = this.service.ensure(app, source);
      if (state.type === "queued" || state.type === "running")
        throw new Error(`it is ${state.type}: ${state.message}`);
      return state;
    }, WAIT_OPTIONS);
  }

  async readLog(id: number, follow = false): Promise<string[]> {
    const lines: string[] = [];
    const { signal } = new AbortController();
    for await (const line of this.service.log(id, { follow }, signal)) lines.push(line);
    return lines;
  }

  /** Uploads an archive that contains these files. */
  async upload(files: Readonly<Record<string, string>>): Promise<string> {
    const dir = join(this.dataDir, "to-upload");
    writeFiles(dir, files);
    // The archive has fixed times, so that equal files give equal archives even if they are written in different
    // seconds.
    const options = { gzip: true, cwd: dir, portable: true, mtime: new Date(0) } as const;
    const stream = create(options, Object.keys(files));
    const { digest } = await this.service.upload(stream, new AbortController().signal);
    return digest;
  }

  events(): string[] {
    return this.store.events
      .list({ limit: 100 })
      .map(({ type, reason, message }) => `${type} ${reason}: ${message}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]();
    await this.testStore[Symbol.asyncDispose]();
    rmSync(this.sourceDir, { recursive: true, force: true });
  }
}

/** Returns a commit id that consists of forty equal digits. */
export function createCommitId(digit: string): string {
  return digit.repeat(40);
}

export function writeFiles(dir: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(dir, { recursive: true });
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
}
