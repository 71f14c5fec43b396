import type { Clock } from "../../base/clock.ts";
import { Debouncer } from "../../base/debouncer.ts";
import { isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import { formatBytes } from "../../base/units.ts";
import type { Store } from "../../store/store.ts";
import type { ImageRuntime, WorkloadRuntime } from "../runtime/port.ts";
import type { ArchiveStore, StoredArchive } from "./archive-store.ts";
import { type BuiltImage, findBuiltImages, planBuildCollection } from "./build-collection-plan.ts";
import type { BuildLogs } from "./build-logs.ts";
import { findProtectedContent } from "./protected-content.ts";

/** The number of records and logs that are kept for each App. It covers some weeks if the App is deployed every day. */
const RECORDS_KEPT_MAX = 50;

/**
 * The delay between the end of a build and the collection of old builds, in milliseconds. Most rollouts are over by
 * then. An earlier collection would find the replaced image still in use, and delay the start of the new version.
 */
const AFTER_BUILD_MS = 30_000;
/** The longest delay of the collection of old builds while further builds end and postpone it. */
const AFTER_BUILD_MAX_MS = 5 * 60_000;

export interface BuildCollectorOptions {
  readonly store: Store;
  readonly runtime: WorkloadRuntime & ImageRuntime;
  readonly archives: ArchiveStore;
  readonly logs: BuildLogs;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tasks: TaskGroup;
  readonly keep: number;
  readonly diskBytesMax: number;
  /** The image that is built from the App's current source; undefined if this image is not known yet. */
  readonly wantedImage: (app: string) => string | undefined;
  /** The references of the images whose builds are queued or running. */
  readonly imagesInProgress: () => readonly string[];
  readonly onImageRemoved: (reference: string) => void;
  /** Called when a build record of `app` has changed. */
  readonly onChanged: (app: string) => void;
}

/** Removes images, archives, records and logs of builds that are not needed any more. */
export class BuildCollector {
  readonly #options: BuildCollectorOptions;
  readonly #afterBuilds: Debouncer;
  #isRunning = false;
  #isRequested = false;

  constructor(options: BuildCollectorOptions) {
    this.#options = options;
    this.#afterBuilds = new Debouncer(options.clock, () => this.request(), {
      quietMs: AFTER_BUILD_MS,
      quietMaxMs: AFTER_BUILD_MAX_MS,
    });
  }

  /** Schedules a collection of old builds for the time after the rollout of a build that has ended. */
  requestAfterBuild(): void {
    this.#afterBuilds.trigger();
  }

  /** Cancels the scheduled collection of old builds. Berth collects them after its next start. */
  close(): void {
    this.#afterBuilds.cancel();
  }

  /**
   * Starts a collection or, if one is running, another one after it. Content that cannot be removed now is removed by a
   * later collection.
   */
  request(): void {
    this.#afterBuilds.cancel();
    this.#isRequested = true;
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#options.tasks.run("collection of old builds", async (signal) => {
      try {
        while (this.#isRequested && !signal.aborted) {
          this.#isRequested = false;
          await this.#collect(signal);
        }
      } catch (error) {
        if (isAbortError(error) && signal.aborted) throw error;
        this.#options.logger.warn(
          { err: error },
          "old builds could not be removed; Berth will retry",
        );
      } finally {
        this.#isRunning = false;
      }
    });
  }

  async #collect(signal: AbortSignal): Promise<void> {
    const { store, runtime, archives, clock, keep, diskBytesMax } = this.#options;
    const instance = store.instanceId;
    await this.#collectRecords();
    const images = await runtime.listImages({ instance }, signal);
    const containers = await runtime.listContainers({ instance }, signal);
    const kept = await archives.list();
    // There is no await between findProtectedContent and planBuildCollection, because the images and archives in use
    // must not change in between.
    const guarded = findProtectedContent(store, containers, this.#options.wantedImage);
    const plan = planBuildCollection({
      instance,
      images,
      archives: kept,
      protectedContent: {
        ...guarded,
        images: new Set([...guarded.images, ...this.#options.imagesInProgress()]),
      },
      keep,
      bytesMax: diskBytesMax,
      nowMs: clock.now(),
      findBuild: (reference) => store.builds.findByImage(reference)?.id,
    });
    this.#adopt(findBuiltImages(instance, images));
    await this.#removeImages(plan.images, signal);
    signal.throwIfAborted();
    this.#removeArchives(plan.archives);
  }

  /**
   * Checks and removes archives synchronously, because an App may have been deployed from an archive while the images
   * were being removed.
   */
  #removeArchives(planned: readonly StoredArchive[]): void {
    const { store, archives } = this.#options;
    const inUse = store.archivesInUse();
    const removed = planned.filter(
      (archive) => !inUse.has(archive.digest) && archives.removeUnchanged(archive),
    );
    if (removed.length > 0) {
      const bytes = removed.reduce((sum, archive) => sum + archive.bytes, 0);
      store.events.record({
        kind: null,
        name: "",
        type: "Normal",
        reason: "ArchivesCollected",
        message: `${removed.length} unused uploaded archives were removed (${formatBytes(bytes)})`,
      });
    }
  }

  /**
   * Completes builds whose image exists but whose result was not recorded because Berth crashed: adds the image to the
   * App's own images, and marks the build's record as succeeded.
   */
  #adopt(images: readonly BuiltImage[]): void {
    const { store, logs, onChanged } = this.#options;
    const { ownedImages, builds } = store;
    for (const { app, references, bytes } of images) {
      if (!store.get("App", app)) continue;
      const known = ownedImages.list(app);
      for (const reference of references) {
        if (!known.includes(reference)) ownedImages.add(reference, app);
        const record = builds.findByImage(reference);
        if (record?.state !== "abandoned" || record.app !== app) continue;
        builds.mark(record.id, "succeeded", { imageBytes: bytes });
        logs.appendLine(
          record.id,
          `==> built ${reference}: the image was completed before Berth ended`,
        );
        onChanged(app);
      }
    }
  }

  async #removeImages(images: readonly BuiltImage[], signal: AbortSignal): Promise<void> {
    const { store, runtime, onImageRemoved } = this.#options;
    const removed = new Map<string, { count: number; bytes: number }>();
    for (const image of images) {
      let isRemoved = false;
      for (const reference of image.references) {
        if (!(await runtime.removeImage(reference, signal))) continue;
        isRemoved = true;
        store.ownedImages.remove(reference, image.app);
        onImageRemoved(reference);
      }
      if (!isRemoved) continue;
      const sum = removed.get(image.app) ?? { count: 0, bytes: 0 };
      removed.set(image.app, { count: sum.count + 1, bytes: sum.bytes + image.bytes });
    }
    for (const [app, { count, bytes }] of removed) {
      if (!store.get("App", app)) continue;
      store.events.record({
        kind: "App",
        name: app,
        type: "Normal",
        reason: "ImagesCollected",
        message: `${count} ${count === 1 ? "image" : "images"} of older builds removed (${formatBytes(bytes)})`,
      });
    }
  }

  async #collectRecords(): Promise<void> {
    const { store, logs } = this.#options;
    for (const app of store.list("App")) {
      const name = app.metadata.name;
      await logs.remove(store.builds.removeOldest({ app: name, keep: RECORDS_KEPT_MAX }));
    }
  }
}
