import type { Resource } from "../../resources/resource.ts";

/**
 * Sources to images, as the App reconciler sees it: it asks, is answered at once, and is woken when
 * the answer changes. The work goes on in a queue of its own and takes no reconcile worker.
 */
export interface AppBuilds {
  /**
   * What the App's source stands for now. Begins to find out where that is not known, or is to be
   * looked at anew (another spec, DEPLOYED_AT, a hook, the interval). A revision that is held by
   * SOURCE_REVISION is taken as it is.
   */
  source(resource: Resource<"App">): SourceState;
  /** The build of this image, begun where none is under way. */
  ensure(resource: Resource<"App">, source: ResolvedSource): BuildState;
  /** Takes the result of a build, or of a look at a source, that has ended: the next call begins anew. */
  clearResult(app: string): void;
  /** Ends what is under way for the App and takes its builds, logs and archives away. */
  forget(app: string): Promise<void>;
}

export interface ResolvedSource {
  /** Commit, or sha256 of the archive or of the folder's content. */
  readonly revision: string;
  /** Where the image of this revision with these build options is, or will be. */
  readonly image: string;
}

export type SourceState =
  | ({ readonly type: "resolved" } & ResolvedSource)
  | { readonly type: "resolving"; readonly message: string }
  /** `terminal`: trying again cannot help until the spec or a credential is another. */
  | {
      readonly type: "failed";
      readonly reason: string;
      readonly message: string;
      readonly terminal: boolean;
    };

export type BuildState =
  | { readonly type: "queued"; readonly id: number; readonly message: string }
  /** `message`: "step 3 of 7: RUN npm ci". */
  | { readonly type: "running"; readonly id: number; readonly message: string }
  | { readonly type: "succeeded"; readonly id: number }
  /**
   * `reason` BuildFailed, BuildCancelled, BuildTimedOut or SourceInvalid, which only another source changes
   * (`terminal`), or what may pass, such as EngineUnreachable and DiskFull.
   */
  | {
      readonly type: "failed";
      readonly id: number;
      readonly reason: string;
      readonly message: string;
      readonly terminal: boolean;
    };

/** What the API may ask and do about builds; records are in the store. */
export interface BuildControl {
  /** Ends a build that waits or runs. False where it has ended already. */
  cancel(id: number): Promise<boolean>;
  /** The log so far, then with `follow` what comes, until the build ends. Each item is one line, without its newline. */
  log(
    id: number,
    options: { readonly follow: boolean },
    signal: AbortSignal,
  ): AsyncIterable<string>;
  /** Looks at the sources of all Apps that follow this repository now, as a push does. Returns their names. */
  refreshFollowers(repository: {
    readonly urls: readonly string[];
    readonly ref: string | undefined;
  }): string[];
  /** Keeps an uploaded archive. Throws `payload_too_large`, `archive_invalid`, `disk_full`. */
  upload(stream: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<UploadedArchive>;
}

export interface UploadedArchive {
  /** sha256, 64 hexadecimal digits: what `source.archive` names. */
  readonly digest: string;
  readonly bytes: number;
}
