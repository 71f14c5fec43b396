import type { Resource } from "../../resources/resource.ts";
import type { Reason } from "../reason.ts";
import type { SpaceWait } from "./free-space.ts";

/**
 * Builds images of sources for the App reconciler. Calls return immediately, and the reconciler is woken when a
 * result changes. The builds have their own queue and occupy no reconcile worker.
 */
export interface AppBuilds {
  /**
   * Returns the current revision of the App's source. Starts to resolve the source if its revision is not known, or if
   * it has to be resolved again: the spec names another source, the user has deployed again (DEPLOYED_AT), a hook has
   * reported a push, or the poll interval is over. If the annotation SOURCE_REVISION names a revision, returns that
   * revision.
   */
  source(resource: Resource<"App">): SourceState;
  /** Returns the state of the build of this image; starts it if necessary. */
  ensure(resource: Resource<"App">, source: ResolvedSource): BuildState;
  /** Removes the result of a finished build or resolution, so that the next call starts a new one. */
  clearResult(app: string): void;
  /** Cancels all work for the App, and removes its builds, logs and archives. */
  forget(app: string): Promise<void>;
}

export interface ResolvedSource {
  /** The commit, or the sha256 of the archive or of the folder's content. */
  readonly revision: string;
  /** The reference of the image for this revision and these build options. The image need not exist. */
  readonly image: string;
}

export type SourceState =
  /**
   * `fetchFailure` is the reason why the last attempt to resolve the source again failed, for example because the
   * source's branch was deleted.
   */
  | ({ readonly type: "resolved"; readonly fetchFailure?: Reason } & ResolvedSource)
  | { readonly type: "resolving"; readonly message: string }
  /** `terminal` is true if a retry cannot succeed until the spec or a credential changes. */
  | {
      readonly type: "failed";
      readonly reason: string;
      readonly message: string;
      readonly terminal: boolean;
    };

export type BuildState =
  | { readonly type: "queued"; readonly id: number; readonly message: string }
  /**
   * The build starts when enough disk space is free, or at `retryAtMs`. Unlike a queued build, it does not wait for
   * other builds.
   */
  | ({ readonly type: "waiting"; readonly id: number } & SpaceWait)
  /** Example of `message`: "step 3 of 7: RUN npm ci". */
  | { readonly type: "running"; readonly id: number; readonly message: string }
  | { readonly type: "succeeded"; readonly id: number }
  /**
   * If `terminal` is true, `reason` is BuildFailed, BuildCancelled, BuildTimedOut or SourceInvalid, and the build
   * needs another source. Otherwise it is a reason that may pass, such as EngineUnreachable or DiskFull.
   */
  | {
      readonly type: "failed";
      readonly id: number;
      readonly reason: string;
      readonly message: string;
      readonly terminal: boolean;
    };

/** The API's access to builds; their records are in the store. */
export interface BuildControl {
  /** Cancels a queued or running build. Returns false if it has already ended. */
  cancel(id: number): Promise<boolean>;
  /**
   * Returns the lines of the log so far and, with `follow`, also new lines until the build ends. Lines have no newline.
   */
  log(
    id: number,
    options: { readonly follow: boolean },
    signal: AbortSignal,
  ): AsyncIterable<string>;
  /**
   * Starts to resolve the sources of all Apps that follow this repository once more, for example after a push. Returns
   * the names of these Apps.
   */
  refreshFollowers(repository: {
    readonly urls: readonly string[];
    readonly ref: string | undefined;
  }): string[];
  /** Stores an uploaded archive. Throws `payload_too_large`, `archive_invalid`, `disk_full`. */
  upload(stream: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<UploadedArchive>;
  /** Removes the archive of a request that has failed, unless something uses the archive or it was uploaded again. */
  discard(digest: string): void;
}

export interface UploadedArchive {
  /** sha256 in 64 hexadecimal digits: the value for `source.archive`. */
  readonly digest: string;
  readonly bytes: number;
}
