import type { SqliteDatabase } from "../../../base/sqlite.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import type { VectorSpaceState } from "./index-protocol.ts";
import type { VectorIndex } from "./search/vector-index.ts";
import type { ChunkChange } from "./store/document-store.ts";
import { readSetting, writeSetting } from "./store/open-index.ts";
import { VectorSpace } from "./store/vector-space.ts";

const DELETED_PER_STEP = 1_000;
/** The maximum number of texts in one request to the embedder. */
const REQUEST_TEXTS_MAX = 16;

interface SpaceSetting extends VectorSpaceState {
  readonly number: number;
}

interface ActiveSpace extends VectorSpaceState {
  readonly space: VectorSpace;
}

export interface EmbeddingIndexDependencies {
  readonly db: SqliteDatabase;
  readonly background: BackgroundTasks;
  /**
   * The embedder. The value `awaited` means that it is not known yet: until `setEmbedder` is called, stored vectors are
   * kept, and no new vectors are requested.
   */
  readonly embedder: VectorSpaceState | "awaited" | undefined;
  /** Sends texts to the embedder. The vectors come back later through a call of `storeVectors`. */
  readonly requestEmbeddings: (texts: readonly string[]) => void;
  readonly onChange: () => void;
  readonly onError: (error: unknown) => void;
}

/** The embeddings of all passages. Requests missing embeddings, stores them, and deletes those of former embedders. */
export class EmbeddingIndex {
  readonly #dependencies: EmbeddingIndexDependencies;
  #embedder: VectorSpaceState | "awaited" | undefined;
  #active: ActiveSpace | undefined;
  /** The vector space that is being read from the database. */
  #loading: VectorSpace | undefined;
  #passages = 0;
  #isLoading = false;
  #requested: readonly { readonly id: number; readonly source: number }[] | undefined;

  constructor(dependencies: EmbeddingIndexDependencies) {
    this.#dependencies = dependencies;
    this.#embedder = dependencies.embedder;
    const count = dependencies.db.prepare<[], number>("SELECT count(*) FROM chunk").pluck();
    this.#passages = count.get() ?? 0;
  }

  /** The number of passages that have a vector of the current embedder. */
  get embeddedCount(): number {
    return this.#active?.space.index.size ?? 0;
  }

  /**
   * Returns the query's vector and the index to search with it; undefined if the query has no vector, or if more than
   * half of the passages have none.
   */
  resolveQueryVector(
    vector: Float32Array | undefined,
  ): { vector: Float32Array; index: VectorIndex } | undefined {
    const active = this.#active;
    // If fewer than half of the passages have a vector, a ranking by similarity would mostly reflect which passages
    // have one, so the search stays lexical.
    if (!active || active.space.index.size * 2 < this.#passages) return undefined;
    if (vector?.length !== active.dimensions) return undefined;
    return { vector, index: active.space.index };
  }

  /**
   * Removes the vectors of deleted passages, and restarts the search for passages without a vector. Call this after the
   * transaction that changed the passages.
   */
  onChunksChanged({ added, removed }: ChunkChange): void {
    this.#passages += added.length - removed.length;
    for (const space of [this.#active?.space, this.#loading])
      if (space) {
        for (const id of removed) space.index.delete(id);
        space.restartScan();
      }
  }

  /** Loads the stored vectors in the background, and then requests the missing vectors. */
  start(): void {
    this.#isLoading = true;
    this.#dependencies.background.add("idle", this.#load(), (error) => {
      this.#isLoading = false;
      this.#loading = undefined;
      if (error !== undefined) this.#dependencies.onError(error);
      else this.requestMissing();
      this.#dependencies.onChange();
    });
  }

  /**
   * Sets the embedder of an index that was created with the value `awaited` for it, and loads the stored vectors of
   * that embedder.
   */
  setEmbedder(embedder: VectorSpaceState): void {
    this.#embedder = embedder;
    // If the task that loads stored vectors is queued already, it is not queued again: it reads `#embedder` when it
    // begins.
    if (!this.#isLoading) this.start();
  }

  /** Requests vectors for some of the passages that have none. Does nothing while a request is pending. */
  requestMissing(): void {
    const active = this.#active;
    if (!active || this.#requested || this.#isLoading) return;
    const search = active.space.findUnembedded(REQUEST_TEXTS_MAX);
    let step = search.next();
    while (step.done !== true) step = search.next();
    if (step.value.length === 0) return;
    this.#requested = step.value;
    this.#dependencies.requestEmbeddings(step.value.map(({ text }) => text));
  }

  /**
   * Stores the vectors of the pending request, in the order of its texts, and requests more. `vectors` is undefined
   * if the embedder failed.
   */
  storeVectors(vectors: readonly Float32Array[] | undefined): void {
    const [active, requested] = [this.#active, this.#requested];
    this.#requested = undefined;
    if (!active || !requested || !vectors) return;
    this.#dependencies.db.transaction(() => {
      for (const [at, { id, source }] of requested.entries()) {
        const vector = vectors[at];
        // A passage that is too long for the embedder gets a zero vector, so that it is not requested again.
        if (vector?.length === 0) active.space.add(id, source, new Float32Array(active.dimensions));
        else if (vector?.length === active.dimensions) active.space.add(id, source, vector);
      }
    })();
    this.requestMissing();
  }

  *#load(): Generator<void> {
    const embedder = this.#embedder;
    if (embedder === "awaited") return;
    const { db } = this.#dependencies;
    const stored = this.#readSpaceSetting();
    if (embedder) {
      const isStored = stored?.id === embedder.id && stored.dimensions === embedder.dimensions;
      const number = isStored ? stored.number : (stored?.number ?? 0) + 1;
      const space = new VectorSpace(db, number, embedder.dimensions);
      this.#loading = space;
      if (isStored) yield* space.load();
      else
        writeSetting(db, "space", JSON.stringify({ ...embedder, number } satisfies SpaceSetting));
      this.#active = { ...embedder, space };
    }
    yield* this.#deleteOtherSpaces();
  }

  *#deleteOtherSpaces(): Generator<void> {
    const { db } = this.#dependencies;
    const number = this.#active?.space.number ?? -1;
    const vectors = db.prepare("DELETE FROM vector WHERE chunk > ? AND chunk <= ? AND space <> ?");
    const last = db.prepare<[], number | null>("SELECT max(chunk) FROM vector").pluck().get() ?? 0;
    for (let from = 0; from < last; from += DELETED_PER_STEP) {
      vectors.run(from, from + DELETED_PER_STEP, number);
      yield;
    }
  }

  #readSpaceSetting(): SpaceSetting | undefined {
    const text = readSetting(this.#dependencies.db, "space");
    if (text === undefined) return undefined;
    const stored: SpaceSetting = JSON.parse(text);
    return stored;
  }
}
