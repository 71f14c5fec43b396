import { createHash } from "node:crypto";
import { BerthError, NotFoundError } from "../../src/base/errors.ts";
import type { BuildControl, UploadedArchive } from "../../src/controller/builds/port.ts";
import type { BuildRecord, Store } from "../../src/store/store.ts";

/** A BuildControl with scripted builds, whose records are in the store. */
export class FakeBuildControl implements BuildControl {
  /** Uploaded archives by digest. */
  readonly archives = new Map<string, Buffer>();
  /** The lines that `log` returns, by the number of the build. */
  readonly logs = new Map<number, string[]>();
  readonly pushes: { readonly urls: readonly string[]; readonly ref: string | undefined }[] = [];
  /** The names of apps that `refreshFollowers` returns. */
  pushedApps: string[] = [];
  /** If set, each upload fails with this error after its stream has been read. */
  uploadError: BerthError | undefined;
  /** The number of bytes that uploads have read, including failed uploads. */
  bytesRead = 0;
  readonly #store: Store;
  readonly #following = new Map<number, { push: (line: string | null) => void }>();

  constructor(store: Store) {
    this.#store = store;
  }

  async cancel(id: number): Promise<boolean> {
    const { state } = this.#get(id);
    if (state !== "queued" && state !== "running") return false;
    this.#store.builds.mark(id, "cancelled", { message: "cancelled by a person" });
    this.#following.get(id)?.push(null);
    return true;
  }

  async *log(
    id: number,
    options: { readonly follow: boolean },
    signal: AbortSignal,
  ): AsyncGenerator<string> {
    const { finishedAt } = this.#get(id);
    const isFollowed = options.follow && finishedAt === null;
    const waiting: (string | null)[] = [];
    let wake: (() => void) | undefined;
    const push = (line: string | null) => {
      waiting.push(line);
      wake?.();
    };
    // The reader subscribes before it gets the first line, so that it misses neither a line nor the end.
    if (isFollowed) this.#following.set(id, { push });
    signal.addEventListener("abort", () => push(null), { once: true });
    yield* this.logs.get(id) ?? [];
    if (!isFollowed) return;
    while (!signal.aborted) {
      const line = waiting.shift();
      if (line === null) return;
      if (line !== undefined) yield line;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  }

  /** Adds a line to the log of a build, or ends the log with null. Returns false if no reader follows the log. */
  emitLine(id: number, line: string | null): boolean {
    this.#following.get(id)?.push(line);
    return this.#following.has(id);
  }

  refreshFollowers(repository: {
    readonly urls: readonly string[];
    readonly ref: string | undefined;
  }): string[] {
    this.pushes.push(repository);
    return this.pushedApps;
  }

  discard(digest: string): void {
    if (!this.#store.archivesInUse().has(digest)) this.archives.delete(digest);
  }

  async upload(stream: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<UploadedArchive> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of stream) {
      signal.throwIfAborted();
      this.bytesRead += chunk.length;
      chunks.push(chunk);
    }
    if (this.uploadError) throw this.uploadError;
    const content = Buffer.concat(chunks);
    if (content.length === 0) throw new BerthError("archive_invalid", "the archive is empty");
    const digest = createHash("sha256").update(content).digest("hex");
    this.archives.set(digest, content);
    return { digest, bytes: content.length };
  }

  #get(id: number): BuildRecord {
    const build = this.#store.builds.get(id);
    if (!build) throw new NotFoundError(`there is no build ${id}`);
    return build;
  }
}
