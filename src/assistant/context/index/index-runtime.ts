import { getErrorMessage } from "../../../base/errors.ts";
import type { SqliteDatabase } from "../../../base/sqlite.ts";
import type { IndexState } from "../port.ts";
import { BackgroundTasks } from "./background-tasks.ts";
import { EmbeddingIndex } from "./embedding-index.ts";
import type { IndexWorkerData, IndexWorkerMessage, IndexWorkerRequest } from "./index-protocol.ts";
import { IndexWriter } from "./index-writer.ts";
import { Searcher } from "./search/searcher.ts";
import { SourceFollower } from "./sources/source-follower.ts";
import { isDamaged, openIndex } from "./store/open-index.ts";
import { countDocuments, syncSourceRows } from "./store/source-rows.ts";

/** The shortest interval between two reports of the index's state. */
const STATE_INTERVAL_MS = 200;
/** The delay after a failure of the embedder, in milliseconds. */
const EMBEDDER_RETRY_MS = 30_000;

/** The part of the index that runs in the worker thread: answers requests and indexes the sources in the background. */
export class IndexRuntime {
  readonly #db: SqliteDatabase;
  readonly #post: (message: IndexWorkerMessage) => void;
  readonly #background = new BackgroundTasks();
  readonly #embeddings: EmbeddingIndex;
  readonly #searcher: Searcher;
  readonly #followers: readonly SourceFollower[];
  readonly #cancelled = new Set<number>();
  readonly #searches: Extract<IndexWorkerRequest, { type: "search" }>[] = [];
  #stateTimer: NodeJS.Timeout | undefined;
  #embedderRetryTimer: NodeJS.Timeout | undefined;
  #isSearchScheduled = false;

  constructor(data: IndexWorkerData, post: (message: IndexWorkerMessage) => void) {
    this.#post = post;
    const { db, isNew } = openIndex(data.dir);
    this.#db = db;
    if (isNew) this.#log("info", "the index is built from scratch", {});
    this.#embeddings = new EmbeddingIndex({
      db,
      background: this.#background,
      embedder: data.embedder,
      requestEmbeddings: (texts) => post({ type: "wanted", texts }),
      onChange: () => this.#postState(),
      onError: (error) => {
        this.#log("warn", "the vectors of the index could not be computed", {
          err: getErrorMessage(error),
        });
        exitIfDamaged(error);
      },
    });
    this.#searcher = new Searcher(db);
    const writer = new IndexWriter(db, this.#embeddings);
    const { documents } = writer;
    this.#followers = syncSourceRows(db, data.sources, documents).map(
      (source) =>
        new SourceFollower(source, {
          documents,
          background: this.#background,
          timing: data.timing,
          apply: (change) => {
            writer.apply(change);
            this.#schedulePostState();
          },
          flush: () => writer.flush(),
          onChange: (error) => this.#onSourceChanged(source.name, error),
        }),
    );
  }

  start(): void {
    this.#embeddings.start();
    for (const follower of this.#followers) follower.start();
    this.#postState();
  }

  handle(request: IndexWorkerRequest): void {
    switch (request.type) {
      case "search":
        this.#searches.push(request);
        this.#scheduleSearch();
        break;
      case "cancel":
        if (this.#searches.some(({ id }) => id === request.id)) this.#cancelled.add(request.id);
        break;
      case "embedder":
        this.#embeddings.setEmbedder(request.embedder);
        break;
      case "vectors":
        this.#storeVectors(request.vectors);
        break;
      default:
        this.#close();
    }
  }

  /** Runs a search in a later event loop turn, so that a cancellation that was already sent is handled first. */
  #scheduleSearch(): void {
    if (this.#isSearchScheduled) return;
    this.#isSearchScheduled = true;
    setImmediate(() => {
      this.#isSearchScheduled = false;
      const request = this.#searches.shift();
      if (!request) return;
      if (!this.#cancelled.delete(request.id)) this.#search(request);
      if (this.#searches.length > 0) this.#scheduleSearch();
    });
  }

  #search(request: Extract<IndexWorkerRequest, { type: "search" }>): void {
    try {
      const { query, limit, scopes, isHybrid, vector } = request;
      const queryVector = isHybrid ? this.#embeddings.resolveQueryVector(vector) : undefined;
      const hits = this.#searcher.search({ query, limit, scopes, queryVector });
      this.#post({ type: "hits", id: request.id, hits });
    } catch (error) {
      this.#post({ type: "failed", id: request.id, detail: getErrorMessage(error) });
      exitIfDamaged(error);
    }
  }

  #storeVectors(vectors: readonly Float32Array[] | undefined): void {
    try {
      this.#embeddings.storeVectors(vectors);
    } catch (error) {
      this.#log("warn", "the vectors of the index could not be written", {
        err: getErrorMessage(error),
      });
      exitIfDamaged(error);
    }
    if (vectors !== undefined) return this.#schedulePostState();
    clearTimeout(this.#embedderRetryTimer);
    this.#embedderRetryTimer = setTimeout(
      () => this.#embeddings.requestMissing(),
      EMBEDDER_RETRY_MS,
    );
  }

  #onSourceChanged(source: string, error: unknown): void {
    if (error !== undefined)
      this.#log("warn", "a source could not be scanned", {
        source,
        err: getErrorMessage(error),
      });
    exitIfDamaged(error);
    this.#embeddings.requestMissing();
    this.#schedulePostState();
  }

  #schedulePostState(): void {
    this.#stateTimer ??= setTimeout(() => {
      this.#stateTimer = undefined;
      this.#postState();
    }, STATE_INTERVAL_MS);
  }

  #postState(): void {
    const { embeddedCount: embedded } = this.#embeddings;
    this.#post({ type: "state", state: this.#computeState(), embedded });
  }

  #computeState(): Omit<IndexState, "vectors"> {
    const { perSource, chunks } = countDocuments(this.#db);
    const sources = this.#followers.map(({ source, state }) => ({
      name: source.name,
      documents: perSource.get(source.id)?.indexed ?? 0,
      skipped: perSource.get(source.id)?.skipped ?? 0,
      ...state,
    }));
    const has = (state: string) => sources.some((source) => source.state === state);
    const state = has("indexing")
      ? "indexing"
      : has("degraded")
        ? "degraded"
        : sources.length === 0
          ? "empty"
          : "ready";
    const documents = sources.reduce((sum, source) => sum + source.documents, 0);
    return { v: 1, state, documents, chunks, sources };
  }

  #log(level: "info" | "warn", message: string, fields: Record<string, unknown>): void {
    this.#post({ type: "log", level, message, fields });
  }

  #close(): void {
    clearTimeout(this.#stateTimer);
    clearTimeout(this.#embedderRetryTimer);
    this.#background.stop();
    for (const follower of this.#followers) follower.stop();
    this.#db.close();
    this.#post({ type: "closed" });
  }
}

/**
 * Ends the thread in the next turn of the event loop if the error says that the index is damaged. The next thread
 * builds the index from scratch.
 */
function exitIfDamaged(error: unknown): void {
  if (isDamaged(error))
    setImmediate(() => {
      throw error;
    });
}
