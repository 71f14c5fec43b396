import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { NotFoundError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { BuildLimits } from "../../config/config.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import type { GitClient, SourceLimits } from "../git/port.ts";
import type { ContainerRuntime } from "../runtime/port.ts";
import { resolveAppSource } from "./app-source-resolver.ts";
import type { ArchiveStore } from "./archive-store.ts";
import { BuildCollector } from "./build-collector.ts";
import { BuildJob } from "./build-job.ts";
import { BuildLogs } from "./build-logs.ts";
import type { BuildMetrics } from "./build-metrics.ts";
import { BuildQueue } from "./build-queue.ts";
import { BuildResults } from "./build-results.ts";
import { BuildWorker } from "./build-worker.ts";
import { BuildSpace, FREE_BYTES_MIN, SPACE_CHECK_MS } from "./free-space.ts";
import type {
  AppBuilds,
  BuildControl,
  BuildState,
  ResolvedSource,
  SourceState,
  UploadedArchive,
} from "./port.ts";
import { secretMask } from "./secret-mask.ts";
import { getImageReference, isSameSource, sourceName } from "./source-key.ts";
import { SOURCE_LIMITS } from "./source-limits.ts";
import { SourceTracker } from "./source-tracker.ts";

export interface BuildServiceOptions {
  readonly store: Store;
  readonly runtime: ContainerRuntime;
  readonly git: GitClient;
  readonly archives: ArchiveStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly dataDir: string;
  readonly limits: BuildLimits;
  /** Called when the state of this App's source or build has changed. */
  readonly onChanged: (app: string) => void;
  /** Called when the garbage collection of builds has removed an image. */
  readonly onImageRemoved?: (reference: string) => void;
  readonly metrics?: BuildMetrics;
  /** The minimum of free disk space for a build. Only tests set this limit, `logBytesMax` and `sourceLimits`. */
  readonly freeBytesMin?: number;
  readonly logBytesMax?: number;
  readonly sourceLimits?: SourceLimits;
}

/**
 * Builds images of sources. The store contains the revisions of sources (`sourcePins`) and the records of builds
 * (`builds`). Logs are in `<dataDir>/builds/<id>.log`, and the files of a running build in `<dataDir>/builds/<id>/`.
 * Work in progress does not survive the process: the reconciler requests it again.
 */
export class BuildService implements AppBuilds, BuildControl, AsyncDisposable {
  readonly #options: BuildServiceOptions;
  readonly #tasks: TaskGroup;
  readonly #logs: BuildLogs;
  readonly #sources: SourceTracker;
  readonly #queue: BuildQueue;
  readonly #results: BuildResults;
  readonly #collector: BuildCollector;
  readonly #space: BuildSpace;
  readonly #unwatch: () => void;
  #cancelSpaceCheck: (() => void) | undefined;
  #isEnding = false;

  constructor(options: BuildServiceOptions) {
    const { store, logger, clock, limits, onChanged } = options;
    this.#options = options;
    this.#tasks = new TaskGroup((error, name) =>
      logger.error({ task: name, err: error }, "a background task of builds failed"),
    );
    const tasks = this.#tasks;
    const sourceLimits = options.sourceLimits ?? SOURCE_LIMITS;
    this.#logs = new BuildLogs(join(options.dataDir, "builds"), options.logBytesMax);
    this.#results = new BuildResults();
    this.#sources = new SourceTracker({
      store,
      clock,
      logger,
      tasks,
      onChanged,
      resolve: (resource, signal) =>
        resolveAppSource({ ...options, sourceLimits }, resource, signal),
    });
    this.#space = new BuildSpace({ ...options, bytesMin: options.freeBytesMin ?? FREE_BYTES_MIN });
    const worker = new BuildWorker({
      run: {
        ...options,
        memoryBytes: limits.memoryBytes,
        nanoCpus: limits.nanoCpus,
        sourceLimits,
      },
      space: this.#space,
      clock,
      logger,
      timeoutMs: limits.timeoutMs,
      results: this.#results,
      metrics: options.metrics,
      onChanged,
      onBuilt: () => this.#collector.requestAfterBuild(),
      onSpaceWait: () => {
        this.#collector.request();
        this.#scheduleSpaceCheck();
      },
      onFolderChanged: (app) => this.#sources.unpin(app),
    });
    this.#queue = new BuildQueue({
      concurrency: limits.concurrency,
      tasks,
      run: (job) => worker.run(job),
      onDropped: (job, ending) => worker.drop(job, ending),
      onDepth: (waiting) => options.metrics?.waiting.set(waiting),
    });
    this.#collector = new BuildCollector({
      ...options,
      tasks,
      logs: this.#logs,
      keep: limits.keep,
      diskBytesMax: limits.diskBytesMax,
      wantedImage: (app) => this.#wantedImage(app),
      imagesInProgress: () => this.#queue.all().map((job) => job.image),
      onImageRemoved: options.onImageRemoved ?? (() => {}),
    });
    this.#unwatch = store.watch(({ kind, type, name }) => {
      if (kind === "App" && type === "modified") this.#onWritten(name);
    });
  }

  /** Cleans up after a process that was killed. Starts no build. */
  async start(): Promise<void> {
    const { store } = this.#options;
    const interrupted = store.builds.list({
      states: ["queued", "running"],
      limit: Number.MAX_SAFE_INTEGER,
    });
    const message = "Berth ended during this build";
    store.batch(() => {
      for (const { id } of interrupted) store.builds.mark(id, "abandoned", { message });
    });
    // Berth may have been killed after an App was written and before Berth handled the write, so every App is handled
    // again.
    for (const app of store.list("App")) this.#sources.handleAppWritten(app);
    const logged = await this.#logs.ids();
    for (const { id } of interrupted)
      if (logged.includes(id)) this.#logs.appendLine(id, `==> abandoned: ${message}`);
    await this.#logs.remove(logged.filter((id) => !store.builds.get(id)));
    await this.#removeWorkDirs();
    await this.#options.archives.sweep();
    this.#collector.request();
  }

  source(resource: Resource<"App">): SourceState {
    return this.#sources.state(resource);
  }

  ensure(resource: Resource<"App">, source: ResolvedSource): BuildState {
    const app = resource.metadata.name;
    const known = this.#queue.current(app);
    if (known?.image === source.image) return this.#describeState(known);
    const ended = this.#results.get(app, source.image);
    if (ended) return ended;
    this.#results.forget(app);
    if (this.#isEnding) return { type: "queued", id: 0, message: "Berth is ending" };
    const job = this.#createJob(resource, source);
    this.#queue.add(job);
    return this.#describeState(job);
  }

  clearResult(app: string): void {
    this.#sources.clearFailure(app);
    this.#results.forget(app);
  }

  async forget(app: string): Promise<void> {
    const { store, archives } = this.#options;
    const jobs = this.#queue.all().filter((job) => job.app === app);
    await Promise.all(jobs.map(({ id }) => this.#queue.end(id, { type: "forgotten" })));
    this.#results.forget(app);
    this.#sources.forget(app);
    await this.#logs.remove(store.builds.removeOldest({ app, keep: 0 }));
    const kept = await archives.list();
    const mine = findArchives(store, app);
    const others = store.archivesInUse(app);
    for (const archive of kept) {
      const { digest } = archive;
      // An archive that was uploaded twice is kept, because the second upload may be for an App that is being created.
      // If not, the collection of old builds removes the archive later.
      if (mine.has(digest) && !others.has(digest) && !archives.isReuploaded(digest))
        archives.removeUnchanged(archive);
    }
  }

  async cancel(id: number): Promise<boolean> {
    const { builds } = this.#options.store;
    if (!builds.get(id)) throw unknownBuildError(id);
    if (!(await this.#queue.end(id, { type: "cancelled" }))) return false;
    return builds.get(id)?.state === "cancelled";
  }

  async *log(
    id: number,
    options: { readonly follow: boolean },
    signal: AbortSignal,
  ): AsyncIterable<string> {
    if (!this.#options.store.builds.get(id)) throw unknownBuildError(id);
    const isThere = yield* this.#logs.read(id, options, signal);
    if (!isThere) yield `(the log of build ${id} has been removed)`;
  }

  refreshFollowers(repository: {
    readonly urls: readonly string[];
    readonly ref: string | undefined;
  }): string[] {
    return this.#sources.refreshFollowers(repository);
  }

  upload(stream: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<UploadedArchive> {
    return this.#options.archives.put(stream, signal);
  }

  discard(digest: string): void {
    const { store, archives } = this.#options;
    if (!store.archivesInUse().has(digest)) archives.discard(digest);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true;
    this.#unwatch();
    this.#collector.close();
    this.#cancelSpaceCheck?.();
    this.#sources.close();
    await this.#queue.endAll({ type: "shutdown" });
    await this.#tasks[Symbol.asyncDispose]();
  }

  /**
   * Handles a change of an App. Cancels the builds of a source that the App does not use any more, and forgets their
   * results.
   */
  #onWritten(app: string): void {
    const resource = this.#options.store.get("App", app);
    if (!resource) return;
    this.#sources.handleAppWritten(resource);
    const image = this.#wantedImage(app);
    if (image === undefined || !this.#results.get(app, image)) this.#results.forget(app);
    this.#tryNow(app);
    for (const job of this.#queue.all()) {
      const why = job.app === app ? getCancellationReason(job.resource, resource) : undefined;
      if (why === undefined) continue;
      this.#tasks.run(`end of build ${job.id}`, async () => {
        await this.#queue.end(job.id, { type: "unwanted", why });
      });
    }
  }

  /**
   * Starts the waiting build of an App that has changed, for example because the user asked for a retry. The build
   * starts even if its last try ran out of space.
   */
  #tryNow(app: string): void {
    const jobs = this.#queue.waitingForSpace().filter((job) => job.app === app);
    for (const job of jobs) job.shortage = undefined;
    this.#queue.resume(jobs);
  }

  #scheduleSpaceCheck(): void {
    if (this.#cancelSpaceCheck || this.#isEnding) return;
    this.#cancelSpaceCheck = this.#options.clock.setTimer(SPACE_CHECK_MS, () => {
      this.#cancelSpaceCheck = undefined;
      this.#tasks.run("check of the free space", (signal) => this.#checkSpace(signal));
    });
  }

  /** Starts builds that have waited for space, if there is enough space now. */
  async #checkSpace(signal: AbortSignal): Promise<void> {
    try {
      const free = await this.#space.measure(signal);
      this.#queue.resume(
        this.#queue
          .waitingForSpace()
          .filter((job) => this.#space.findWait(free, job.shortage) === undefined),
      );
    } catch (error) {
      if (signal.aborted) throw error;
      this.#options.logger.debug({ err: error }, "the free space cannot be measured");
    }
    if (this.#queue.waitingForSpace().length > 0) this.#scheduleSpaceCheck();
  }

  #createJob(resource: Resource<"App">, source: ResolvedSource): BuildJob {
    const { store } = this.#options;
    const { name, generation } = resource.metadata;
    const record = store.builds.create({
      app: name,
      generation,
      source: resource.spec.source ? sourceName(resource.spec.source) : "",
      revision: source.revision,
      image: source.image,
    });
    const mask = secretMask(store, resource.spec);
    return new BuildJob({
      id: record.id,
      resource,
      source,
      mask,
      log: this.#logs.create(record.id, mask),
    });
  }

  #describeState(job: BuildJob): BuildState {
    if (job.isRunning) return { type: "running", id: job.id, message: job.step };
    if (job.spaceWait) return { type: "waiting", id: job.id, ...job.spaceWait };
    const count = this.#queue.countAhead(job);
    const message =
      count === 1 ? "waiting for another build to end" : `waiting for ${count} other builds to end`;
    return { type: "queued", id: job.id, message };
  }

  #wantedImage(app: string): string | undefined {
    const resource = this.#options.store.get("App", app);
    const revision = resource?.spec.source && this.#sources.revision(resource);
    if (!resource || revision === undefined) return undefined;
    return getImageReference(this.#options.store.instanceId, app, resource.spec, revision);
  }

  async #removeWorkDirs(): Promise<void> {
    const dir = join(this.#options.dataDir, "builds");
    const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (!entry.isDirectory()) continue;
      await rm(join(dir, entry.name), { recursive: true, force: true }).catch((error: unknown) =>
        this.#options.logger.warn({ err: error }, "the files of an old build were not removed"),
      );
    }
  }
}

/**
 * Returns the reason to cancel a build that was started for an older spec; undefined if the build continues. If the
 * spec's own source changes, a build for a rollback is cancelled too, and started again if necessary.
 */
function getCancellationReason(begun: Resource<"App">, now: Resource<"App">): string | undefined {
  if (now.metadata.deletionTimestamp !== null) return "the app is being deleted";
  if (now.spec.suspend === true) return "the app is suspended";
  if (!now.spec.source) return "the app no longer has a source";
  if (!isSameSource(begun.spec.source, now.spec.source)) return "the app has another source now";
  return undefined;
}

/** Returns the archives that the App's spec and revisions name. */
function findArchives(store: Store, app: string): ReadonlySet<string> {
  const resource = store.get("App", app);
  const specs = [
    ...(resource ? [resource.spec] : []),
    ...store.revisions.list(app).map((revision) => revision.spec),
  ];
  return new Set(
    specs.flatMap(({ source }) => (source && "archive" in source ? [source.archive] : [])),
  );
}

function unknownBuildError(id: number): NotFoundError {
  return new NotFoundError(`there is no build ${id}`, "list builds with: berth builds APP");
}
