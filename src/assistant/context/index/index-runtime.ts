import { messageOf } from "../../../base/errors.ts";
import type { SqliteDatabase } from "../../../base/sqlite.ts";
import type { IndexState } from "../port.ts";
import { Background } from "./background.ts";
import { IndexWriter } from "./index-writer.ts";
import { Meaning } from "./meaning.ts";
import { Searcher } from "./search/searcher.ts";
import { SourceFollower } from "./sources/source-follower.ts";
import { isDamaged, openIndex } from "./store/open-index.ts";
import { countDocuments, settleSources } from "./store/source-rows.ts";
import type { WorkerData, WorkerMessage, WorkerRequest } from "./worker-protocol.ts";

/** Between two tellings of the state while it changes. */
const TELL_EVERY_MS = 200;
/** After the embedder could not be had. */
const EMBEDDER_REST_MS = 30_000;

/** The index's side of the protocol: who is asked what, and what goes on beside it. */
export class IndexRuntime {
  readonly #db: SqliteDatabase;
  readonly #tell: (message: WorkerMessage) => void;
  readonly #background = new Background();
  readonly #meaning: Meaning;
  readonly #searcher: Searcher;
  readonly #followers: readonly SourceFollower[];
  /** Sources went, with all their texts, since the index was last open. */
  readonly #hasRemoved: boolean;
  readonly #cancelled = new Set<number>();
  readonly #searches: Extract<WorkerRequest, { type: "search" }>[] = [];
  #teller: NodeJS.Timeout | undefined;
  #embedderRest: NodeJS.Timeout | undefined;
  #isSearchScheduled = false;

  constructor(data: WorkerData, tell: (message: WorkerMessage) => void) {
    this.#tell = tell;
    const { db, isNew } = openIndex(data.dir);
    this.#db = db;
    if (isNew) this.#log("info", "the index is made anew", {});
    this.#meaning = new Meaning({
      db,
      background: this.#background,
      embedder: data.embedder,
      want: (texts) => tell({ type: "wanted", texts }),
      onChange: () => this.#tellState(),
      onError: (error) => {
        this.#log("warn", "the vectors of the index could not be made", { err: messageOf(error) });
        leaveIfDamaged(error);
      },
    });
    this.#searcher = new Searcher(db);
    const writer = new IndexWriter(db, this.#meaning);
    const { documents } = writer;
    const { rows, hasRemoved } = settleSources(db, data.sources, documents);
    this.#hasRemoved = hasRemoved;
    this.#followers = rows.map(
      (source) =>
        new SourceFollower(source, {
          documents,
          background: this.#background,
          timing: data.timing,
          apply: (change) => {
            writer.apply(change);
            this.#tellSoon();
          },
          flush: () => writer.flush(),
          onChange: (error) => this.#sourceChanged(source.name, error),
        }),
    );
  }

  start(): void {
    this.#meaning.start({ hasLost: this.#hasRemoved });
    for (const follower of this.#followers) follower.start();
    this.#tellState();
  }

  handle(request: WorkerRequest): void {
    switch (request.type) {
      case "search":
        this.#searches.push(request);
        this.#searchSoon();
        break;
      case "cancel":
        if (this.#searches.some(({ id }) => id === request.id)) this.#cancelled.add(request.id);
        break;
      case "embed": {
        const vectors = this.#meaning.embed(request.texts);
        this.#tell({ type: "embedded", id: request.id, vectors });
        break;
      }
      case "embedder":
        this.#meaning.use(request.embedder);
        break;
      case "vectors":
        this.#take(request.vectors);
        break;
      default:
        this.#close();
    }
  }

  /** Not at once: a cancellation that is already on its way is heard first. */
  #searchSoon(): void {
    if (this.#isSearchScheduled) return;
    this.#isSearchScheduled = true;
    setImmediate(() => {
      this.#isSearchScheduled = false;
      const request = this.#searches.shift();
      if (!request) return;
      if (!this.#cancelled.delete(request.id)) this.#search(request);
      if (this.#searches.length > 0) this.#searchSoon();
    });
  }

  #search(request: Extract<WorkerRequest, { type: "search" }>): void {
    try {
      const { query, limit, scopes, isHybrid, vector } = request;
      const meaning = isHybrid ? this.#meaning.of(query, vector) : undefined;
      const hits = this.#searcher.search({ query, limit, scopes, meaning });
      this.#tell({ type: "hits", id: request.id, hits });
    } catch (error) {
      this.#tell({ type: "failed", id: request.id, detail: messageOf(error) });
      leaveIfDamaged(error);
    }
  }

  #take(vectors: readonly Float32Array[] | undefined): void {
    try {
      this.#meaning.take(vectors);
    } catch (error) {
      this.#log("warn", "the vectors of the index could not be written", { err: messageOf(error) });
      leaveIfDamaged(error);
    }
    if (vectors !== undefined) return this.#tellSoon();
    clearTimeout(this.#embedderRest);
    this.#embedderRest = setTimeout(() => this.#meaning.maintain(), EMBEDDER_REST_MS);
  }

  #sourceChanged(source: string, error: unknown): void {
    if (error !== undefined)
      this.#log("warn", "a source could not be looked through", { source, err: messageOf(error) });
    leaveIfDamaged(error);
    this.#meaning.maintain();
    this.#tellSoon();
  }

  #tellSoon(): void {
    this.#teller ??= setTimeout(() => {
      this.#teller = undefined;
      this.#tellState();
    }, TELL_EVERY_MS);
  }

  #tellState(): void {
    this.#tell({ type: "state", state: this.#state(), space: this.#meaning.space });
  }

  #state(): IndexState {
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
    this.#tell({ type: "log", level, message, fields });
  }

  #close(): void {
    clearTimeout(this.#teller);
    clearTimeout(this.#embedderRest);
    this.#background.end();
    for (const follower of this.#followers) follower.end();
    this.#db.close();
    this.#tell({ type: "closed" });
  }
}

/** Ends the thread, after what is being done: the next one makes the index anew. */
function leaveIfDamaged(error: unknown): void {
  if (isDamaged(error))
    setImmediate(() => {
      throw error;
    });
}
