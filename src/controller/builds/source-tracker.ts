import { hashJson } from "../../base/canonical-json.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import { parseDuration } from "../../base/units.ts";
import type { AppSource, GitSource } from "../../resources/app-source-spec.ts";
import { type Resource, SOURCE_REVISION_ANNOTATION } from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import { isSameRepository, redactUrl } from "../git/git-url.ts";
import type { Reason } from "../reason.ts";
import { type BuildFailure, describeSourceFailure, isUnexpected } from "./build-failure.ts";
import type { SourceState } from "./port.ts";
import { secretMask } from "./secret-mask.ts";
import {
  getImageReference,
  isCommit,
  isSameRef,
  isSameSource,
  pinKey,
  shortRevision,
  sourceName,
} from "./source-key.ts";
import { type SourceResolution, SourceResolutionQueue } from "./source-resolution-queue.ts";
import { SourceTimers } from "./source-timers.ts";

export interface SourceTrackerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tasks: TaskGroup;
  /** Resolves the App's source to a commit or a digest of its content. */
  readonly resolve: (resource: Resource<"App">, signal: AbortSignal) => Promise<string>;
  /**
   * Called when the revision of this App's source has changed, and when resolving the source has failed or succeeds
   * again.
   */
  readonly onChanged: (app: string) => void;
}

/**
 * Tracks the revisions of Apps' sources. A revision is resolved once, concurrently with the reconcilers, and stored
 * as a pin. A restart, a moved branch or an unreachable server does not change the pin. A pin is renewed when a user
 * requests it (DEPLOYED_AT), at the interval of the source, and when a hook reports a push.
 */
export class SourceTracker {
  readonly #options: SourceTrackerOptions;
  readonly #resolutions: SourceResolutionQueue;
  readonly #timers: SourceTimers;
  /** The failures of sources that have never been resolved, until the reconciler has read them. */
  readonly #failures = new Map<
    string,
    { readonly attempt: string; readonly failure: BuildFailure }
  >();
  /**
   * The source to which each App's pin (a resolved revision) belongs. The digest in the stored pin cannot serve to
   * compare sources, because a new deployment of an unchanged source changes this digest.
   */
  readonly #pinnedSources = new Map<string, AppSource>();
  /**
   * The failures of the last refreshes. If refreshes fail again for the same reason, only the first one records an
   * event.
   */
  readonly #failingRefreshes = new Map<string, Reason>();

  constructor(options: SourceTrackerOptions) {
    this.#options = options;
    this.#resolutions = new SourceResolutionQueue({
      tasks: options.tasks,
      run: (resolution, signal) => this.#resolve(resolution, signal),
    });
    this.#timers = new SourceTimers(options.clock, (app) => this.#onTimer(app));
  }

  state(resource: Resource<"App">): SourceState {
    const { name } = resource.metadata;
    const { source } = resource.spec;
    if (!source) {
      const message = "the spec has no source";
      return { type: "failed", reason: "SourceInvalid", message, terminal: true };
    }
    const revision = this.revision(resource);
    if (revision !== undefined) {
      this.#scheduleRefresh(resource);
      const fetchFailure = this.#failingRefreshes.get(name);
      return {
        type: "resolved",
        revision,
        image: this.#image(resource, revision),
        ...(fetchFailure === undefined || isHeld(resource) ? {} : { fetchFailure }),
      };
    }
    const attempt = this.#attemptKey(resource);
    const failed = this.#failures.get(name);
    if (failed?.attempt === attempt) return { type: "failed", ...failed.failure };
    this.#failures.delete(name);
    this.#resolutions.start({ app: name, attempt, isRefresh: false });
    return { type: "resolving", message: `resolving ${describeSource(resource)}` };
  }

  /** Returns the revision that the current spec names or is pinned to; undefined while it is not known. */
  revision(resource: Resource<"App">): string | undefined {
    const held = resource.metadata.annotations[SOURCE_REVISION_ANNOTATION];
    if (held !== undefined) return held;
    const pin = this.#options.store.sourcePins.get(resource.metadata.name);
    return pin?.key === pinKey(resource) ? pin.revision : undefined;
  }

  clearFailure(app: string): void {
    this.#failures.delete(app);
  }

  forget(app: string): void {
    this.#resolutions.cancel(app);
    this.#timers.forget(app);
    this.#failures.delete(app);
    this.#failingRefreshes.delete(app);
    this.#pinnedSources.delete(app);
    // The pin is looked up first, because a removal flushes the disk even if there is no pin, as for most Apps.
    if (this.#options.store.sourcePins.get(app)) this.unpin(app);
  }

  /**
   * Called when the App has been written, and for each App at the start. Drops the results of resolving another source,
   * even if the spec names that source again later. The pinned revision of an unchanged source is kept until a new
   * revision is resolved, because a rollback needs the previous revision.
   */
  handleAppWritten(resource: Resource<"App">): void {
    const { name } = resource.metadata;
    const { source } = resource.spec;
    if (!source) {
      this.forget(name);
      return;
    }
    const isPinned = this.#options.store.sourcePins.get(name)?.key === pinKey(resource);
    const pinned = this.#pinnedSources.get(name);
    if (!isPinned) this.#failingRefreshes.delete(name);
    if (isPinned) this.#pinnedSources.set(name, source);
    else if (pinned && !isSameSource(pinned, source)) this.unpin(name);
    const attempt = this.#attemptKey(resource);
    if (this.#failures.get(name)?.attempt !== attempt) this.#failures.delete(name);
    // A resolution is cancelled if its inputs have changed. The resolution of a pinned source only checks for a
    // newer revision. It continues, because at most the credential has changed.
    const resolution = this.#resolutions.get(name);
    if (resolution && resolution.attempt !== attempt && !isPinned) this.#resolutions.cancel(name);
  }

  /** Starts to resolve the sources of all Apps that follow this repository; returns the names of these Apps. */
  refreshFollowers(repository: {
    readonly urls: readonly string[];
    readonly ref: string | undefined;
  }): string[] {
    const followers = this.#options.store.list("App").filter((resource) => {
      const git = getGitSource(resource);
      if (!git || isHeld(resource) || resource.metadata.deletionTimestamp !== null) return false;
      if (!repository.urls.some((url) => isSameRepository(url, git.url))) return false;
      if (git.ref === undefined || repository.ref === undefined) return !isCommit(git.ref);
      return isSameRef(git.ref, repository.ref);
    });
    for (const resource of followers) this.#refresh(resource, true);
    return followers.map((resource) => resource.metadata.name);
  }

  /** Cancels the timers, so that no further resolution of a source starts. */
  close(): void {
    this.#timers.clear();
  }

  /**
   * Removes the pin to a revision that is not available any more. The next call of `state` resolves the source again.
   */
  unpin(app: string): void {
    this.#pinnedSources.delete(app);
    this.#options.store.sourcePins.remove(app);
  }

  #refresh(resource: Resource<"App">, mayBeStale: boolean): void {
    const app = resource.metadata.name;
    const isRefresh = this.revision(resource) !== undefined;
    // The last failure is forgotten, because the source may be available now.
    if (!isRefresh) this.#failures.delete(app);
    this.#resolutions.start({ app, attempt: this.#attemptKey(resource), isRefresh }, mayBeStale);
  }

  #scheduleRefresh(resource: Resource<"App">): void {
    const { name } = resource.metadata;
    const git = getGitSource(resource);
    if (git?.interval === undefined || isHeld(resource) || isCommit(git.ref)) {
      this.#timers.forget(name);
      return;
    }
    const pinnedMs = this.#options.store.sourcePins.get(name)?.resolvedAtMs ?? 0;
    this.#timers.arm(name, parseDuration(git.interval), pinnedMs);
  }

  #onTimer(app: string): void {
    const resource = this.#options.store.get("App", app);
    const isWanted =
      resource?.metadata.deletionTimestamp === null && resource.spec.suspend !== true;
    if (!isWanted || isHeld(resource) || getGitSource(resource)?.interval === undefined) return;
    this.#refresh(resource, false);
  }

  async #resolve(resolution: SourceResolution, signal: AbortSignal): Promise<void> {
    const resource = this.#options.store.get("App", resolution.app);
    if (!resource?.spec.source || this.#attemptKey(resource) !== resolution.attempt) return;
    try {
      const revision = await this.#options.resolve(resource, signal);
      signal.throwIfAborted();
      this.#recordRevision(resolution, resource, revision);
    } catch (error) {
      // If the resolution itself was not cancelled, an abort error means that the server did not respond.
      signal.throwIfAborted();
      this.#recordFailure(resolution, resource, error);
    }
  }

  #recordRevision(resolution: SourceResolution, resource: Resource<"App">, revision: string): void {
    const { store, clock, onChanged } = this.#options;
    const { app } = resolution;
    this.#timers.markResolved(app);
    const hasRecovered = this.#failingRefreshes.delete(app);
    const key = pinKey(resource);
    const before = store.sourcePins.get(app);
    const isKnown = before?.key === key;
    // A pin that has not changed is not written again, because each write flushes the disk.
    if (isKnown && before.revision === revision) {
      this.#scheduleRefresh(resource);
      if (hasRecovered) onChanged(app);
      return;
    }
    if (resource.spec.source) this.#pinnedSources.set(app, resource.spec.source);
    store.batch(() => {
      store.sourcePins.set(app, { key, revision, resolvedAtMs: clock.now() });
      if (!isKnown) return;
      store.events.record({
        kind: "App",
        name: app,
        type: "Normal",
        reason: "SourceChanged",
        message: `${describeSource(resource)} changed from ${shortRevision(before.revision)} to ${shortRevision(revision)}`,
      });
    });
    this.#scheduleRefresh(resource);
    onChanged(app);
  }

  #recordFailure(resolution: SourceResolution, resource: Resource<"App">, error: unknown): void {
    const { store, logger, onChanged } = this.#options;
    const { app } = resolution;
    if (isUnexpected(error)) logger.error({ app, err: error }, "a source could not be resolved");
    const failure = describeSourceFailure(error, secretMask(store, resource.spec));
    this.#timers.markResolved(app);
    const known = this.revision(resource);
    if (!resolution.isRefresh || known === undefined) {
      this.#failures.set(app, { attempt: resolution.attempt, failure });
      onChanged(app);
      return;
    }
    this.#scheduleRefresh(resource);
    const { reason } = failure;
    const message = `${describeSource(resource)} cannot be resolved, and the app stays at ${shortRevision(known)}: ${failure.message}`;
    const before = this.#failingRefreshes.get(app);
    this.#failingRefreshes.set(app, { reason, message });
    if (before?.reason === reason) return;
    store.events.record({ kind: "App", name: app, type: "Warning", reason, message });
    onChanged(app);
  }

  /**
   * Returns the key under which failures of the source are stored. A new credential, or a change of the Secret with the
   * credential, gives a new key, so that the source is resolved again.
   */
  #attemptKey(resource: Resource<"App">): string {
    const credential = getGitSource(resource)?.credential;
    const secret =
      credential === undefined ? undefined : this.#options.store.get("Secret", credential);
    return hashJson([
      resource.metadata.uid,
      pinKey(resource),
      credential ?? null,
      secret?.metadata.generation ?? null,
    ]);
  }

  #image(resource: Resource<"App">, revision: string): string {
    const { instanceId } = this.#options.store;
    return getImageReference(instanceId, resource.metadata.name, resource.spec, revision);
  }
}

function getGitSource(resource: Resource<"App">): GitSource | undefined {
  const { source } = resource.spec;
  return source && "git" in source ? source.git : undefined;
}

function isHeld(resource: Resource<"App">): boolean {
  return resource.metadata.annotations[SOURCE_REVISION_ANNOTATION] !== undefined;
}

function describeSource(resource: Resource<"App">): string {
  const git = getGitSource(resource);
  const { source } = resource.spec;
  if (git) return `${git.ref ?? "HEAD"} of ${redactUrl(git.url)}`;
  return source ? `the ${sourceName(source)}` : "nothing";
}
