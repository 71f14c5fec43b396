/** An attempt to build an image from a source. */
export interface BuildRecord {
  /** The number of the build, from one increasing sequence for all apps. */
  readonly id: number;
  readonly app: string;
  readonly generation: number;
  /** Description for users: the URL of the repository without credentials, "archive" or "folder". */
  readonly source: string;
  /** The commit, or the sha256 of the archive or of the content of the folder. */
  readonly revision: string;
  readonly image: string;
  readonly state: BuildRecordState;
  /** Explains a failure in a few lines; null otherwise. */
  readonly message: string | null;
  readonly imageBytes: number | null;
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
}

/** queued -> running -> succeeded, failed or cancelled. abandoned: Berth exited during the build. */
export type BuildRecordState =
  | "queued"
  | "running"
  | "succeeded"
  | "failed"
  | "cancelled"
  | "abandoned";

export interface BuildRecords {
  create(
    input: Pick<BuildRecord, "app" | "generation" | "source" | "revision" | "image">,
  ): BuildRecord;
  /** Sets the state and the times that result from it. Does nothing if the build does not exist any more. */
  mark(
    id: number,
    state: BuildRecordState,
    details?: { readonly message?: string; readonly imageBytes?: number },
  ): void;
  get(id: number): BuildRecord | undefined;
  /** Returns builds, newest first. Without `app`, returns the builds of all apps. */
  list(filter: {
    readonly app?: string;
    readonly states?: readonly BuildRecordState[];
    readonly limit: number;
  }): BuildRecord[];
  /** Returns the newest build that produced this image; undefined if there is none. */
  findByImage(image: string): BuildRecord | undefined;
  /** Removes all but the newest `keep` records. Returns the removed ids, so that the caller can remove their logs. */
  removeOldest(filter: { readonly app: string; readonly keep: number }): number[];
}
