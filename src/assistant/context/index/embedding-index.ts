import type { SqliteDatabase } from "../../../base/sqlite.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import type { VectorSpaceState } from "./index-protocol.ts";
import { LsaModel, trainLsa } from "./lsa/lsa-model.ts";
import type { VectorIndex } from "./search/vector-index.ts";
import type { ChunkChange } from "./store/document-store.ts";
import { LearnedStore, learnedTerms } from "./store/learned-store.ts";
import { readSetting, writeSetting } from "./store/open-index.ts";
import { VectorSpace } from "./store/vector-space.ts";

/** Fewer passages relate too few words to each other. */
const PASSAGES_MIN = 300;
/** Learned anew once the corpus is so many times what it was, or so small a share of it. */
const GROWN = 1.5;
const SHRUNK = 0.5;
/** Passages that are learned from; the others are folded in, which tells next to no difference. */
const SAMPLE_MAX = 20_000;
const TEXTS_A_PAGE = 50;
const FOLDED_A_STEP = 16;
/** A commit is a flush of the disk. */
const FOLDED_A_COMMIT = 256;
const LEARNED_A_STEP = 1_000;
const DELETED_PER_STEP = 1_000;
/** Texts that the embedder is asked for at a time. */
const REQUEST_TEXTS_MAX = 16;

interface ActiveSpace extends VectorSpaceState {
  readonly space: VectorSpace;
  /** Undefined where an embedder makes the vectors. */
  readonly model: LsaModel | undefined;
  readonly trainedOn: number;
}

interface SpaceSetting {
  readonly number: number;
  readonly id: string;
  readonly dimensions: number;
  readonly trainedOn: number;
}

export interface EmbeddingIndexDependencies {
  readonly db: SqliteDatabase;
  readonly background: BackgroundTasks;
  /** `awaited`: nothing is done about vectors until `use` says whose they are. */
  readonly embedder: VectorSpaceState | "awaited" | undefined;
  /** Asks the embedder; `take` is called with what it said. */
  readonly requestEmbeddings: (texts: readonly string[]) => void;
  readonly onChange: () => void;
  readonly onError: (error: unknown) => void;
}

/** Where vectors come from, which of them count, and that every passage gets one. */
export class EmbeddingIndex {
  readonly #dependencies: EmbeddingIndexDependencies;
  readonly #learned: LearnedStore;
  #embedder: VectorSpaceState | "awaited" | undefined;
  #active: ActiveSpace | undefined;
  /** Being filled, to become the active one. */
  #next: VectorSpace | undefined;
  #passages = 0;
  #isBusy = false;
  #isStale = false;
  /** Something went while the lesson was made or read: it may still have its words. */
  #hasLost = false;
  #requested: readonly { readonly id: number; readonly source: number }[] | undefined;

  constructor(tools: EmbeddingIndexDependencies) {
    this.#dependencies = tools;
    this.#embedder = tools.embedder;
    this.#learned = new LearnedStore(tools.db);
    this.#passages = this.#countPassages();
  }

  get space(): VectorSpaceState | undefined {
    const active = this.#usableSpace();
    return active && { id: active.id, dimensions: active.dimensions };
  }

  /** The vector to search by, and where; undefined where there is none, and words have to do. */
  resolveQueryVector(
    query: string,
    given: Float32Array | undefined,
  ): { vector: Float32Array; index: VectorIndex } | undefined {
    const active = this.#usableSpace();
    if (!active) return undefined;
    const vector = active.model ? active.model.embed(query) : given;
    if (vector?.length !== active.dimensions) return undefined;
    return { vector, index: active.space.index };
  }

  embed(texts: readonly string[]): Float32Array[] | undefined {
    const model = this.#active?.model;
    return model && texts.map((text) => model.embed(text) ?? new Float32Array(model.dimensions));
  }

  /** Words that these texts have and that were learned. */
  termsOf(texts: readonly string[]): string[] {
    return learnedTerms(texts, this.#active?.model);
  }

  /** In the transaction that took texts out: a word that no text has any more goes as well. */
  forget(terms: readonly string[]): void {
    const active = this.#active;
    if (!active?.model || terms.length === 0) return;
    const { model, space } = active;
    const gone = new Set(this.#learned.forget(space.number, new Set(terms)));
    if (gone.size === 0) return;
    const places = new Map([...model.vocabulary.places].filter(([term]) => !gone.has(term)));
    const { weights } = model.vocabulary;
    this.#active = {
      ...active,
      model: new LsaModel({ places, weights }, model.dimensions, model.vectors),
    };
  }

  /** After the transaction. */
  onChunksChanged({ added, removed }: ChunkChange): void {
    this.#passages += added.length - removed.length;
    if (removed.length > 0 && this.#isBusy) this.#hasLost = true;
    for (const space of [this.#active?.space, this.#next])
      if (space) {
        for (const id of removed) space.index.delete(id);
        space.restartScan();
      }
  }

  /** Reads what there is, then keeps at it. `hasLost`: texts went since it was last read. */
  start({ hasLost }: { readonly hasLost: boolean }): void {
    this.#hasLost = hasLost;
    this.#startTask(this.#load());
  }

  /** The embedder that was awaited. */
  setEmbedder(embedder: VectorSpaceState): void {
    this.#embedder = embedder;
    // A reading that has not begun yet takes it as it is then.
    if (!this.#isBusy) this.#startTask(this.#load());
  }

  /** To be called whenever the sources rest. */
  maintain(): void {
    if (this.#embedder === "awaited") return;
    if (this.#isBusy) this.#isStale = true;
    else if (this.#embedder) this.#requestMissing();
    else if (this.#mustLearn() || this.#hasMissing()) this.#startTask(this.#learn());
  }

  /** What the embedder said to `want`; undefined: it cannot be had now. */
  storeVectors(vectors: readonly Float32Array[] | undefined): void {
    const [active, wanted] = [this.#active, this.#requested];
    this.#requested = undefined;
    if (!active || !wanted || !vectors) return;
    this.#dependencies.db.transaction(() => {
      for (const [at, { id, source }] of wanted.entries()) {
        const vector = vectors[at];
        // A passage that is too long for the embedder is near to nothing, and not asked for again.
        if (vector?.length === 0) active.space.add(id, source, new Float32Array(active.dimensions));
        else if (vector?.length === active.dimensions) active.space.add(id, source, vector);
      }
    })();
    this.#requestMissing();
  }

  #usableSpace(): ActiveSpace | undefined {
    const active = this.#active;
    // With half of the vectors missing, ranks by them would say which passages have one.
    return active && active.space.index.size * 2 >= this.#passages ? active : undefined;
  }

  #startTask(work: Generator<void>): void {
    this.#isBusy = true;
    this.#dependencies.background.add("idle", work, (error) => {
      this.#isBusy = false;
      this.#next = undefined;
      if (error !== undefined) this.#dependencies.onError(error);
      this.#dependencies.onChange();
      if (this.#isStale && error === undefined) {
        this.#isStale = false;
        this.maintain();
      }
    });
  }

  *#load(): Generator<void> {
    const embedder = this.#embedder;
    if (embedder === "awaited") return;
    const written = this.#readSpaceSetting();
    const { db } = this.#dependencies;
    const isOurs = embedder ? written?.id === embedder.id : written?.id.startsWith("lsa:") === true;
    if (written && isOurs) {
      const space = new VectorSpace(db, written.number, written.dimensions);
      const model = embedder ? undefined : this.#learned.load(written.number);
      if (embedder || model?.dimensions === written.dimensions) {
        // Known before it is full, so that what goes meanwhile goes from it too.
        this.#next = space;
        yield* space.load();
        this.#active = { ...written, space, model };
        if (this.#hasLost && model) yield* this.#forgetLost(model);
      }
    } else if (embedder)
      this.#activate(
        embedder,
        new VectorSpace(db, this.#nextSpaceNumber(), embedder.dimensions),
        undefined,
      );
    this.#isStale = true;
    yield* this.#deleteOtherSpaces();
  }

  *#learn(): Generator<void> {
    const { db } = this.#dependencies;
    if (this.#mustLearn()) {
      this.#hasLost = false;
      const trainedOn = this.#passages;
      const model = yield* trainLsa(() => this.#sample());
      if (model.dimensions > 0) {
        const space = new VectorSpace(db, this.#nextSpaceNumber(), model.dimensions);
        this.#next = space;
        yield* this.#save(space.number, model);
        yield* this.#fold(space, model);
        const id = `lsa:${space.number}`;
        this.#activate({ id, dimensions: model.dimensions }, space, model, trainedOn);
        if (this.#hasLost) yield* this.#forgetLost(model);
        yield* this.#deleteOtherSpaces();
      }
    }
    const active = this.#active;
    if (active?.model) yield* this.#fold(active.space, active.model);
  }

  /** Gives a vector to each passage that has none. */
  *#fold(space: VectorSpace, model: LsaModel): Generator<void> {
    space.restartScan();
    for (;;) {
      const lacking = yield* space.findUnembedded(FOLDED_A_COMMIT);
      if (lacking.length === 0) return;
      const made: Float32Array[] = [];
      for (const { text } of lacking) {
        made.push(model.embed(text) ?? new Float32Array(model.dimensions));
        if (made.length % FOLDED_A_STEP === 0) yield;
      }
      // What went meanwhile is passed over there.
      this.#dependencies.db.transaction(() => {
        for (const [at, { id, source }] of lacking.entries()) {
          const vector = made[at];
          if (vector) space.add(id, source, vector);
        }
      })();
      yield;
    }
  }

  *#save(number: number, model: LsaModel): Generator<void> {
    const { vocabulary } = model;
    const terms = [...vocabulary.places];
    for (let at = 0; at < terms.length; at += LEARNED_A_STEP) {
      const places = new Map(terms.slice(at, at + LEARNED_A_STEP));
      const { weights } = vocabulary;
      const part = new LsaModel({ places, weights }, model.dimensions, model.vectors);
      this.#dependencies.db.transaction(() => this.#learned.save(number, part))();
      yield;
    }
  }

  *#forgetLost({ vocabulary }: LsaModel): Generator<void> {
    const terms = [...vocabulary.places.keys()];
    for (let at = 0; at < terms.length; at += LEARNED_A_STEP) {
      this.#dependencies.db.transaction(() => this.forget(terms.slice(at, at + LEARNED_A_STEP)))();
      yield;
    }
    this.#dependencies.db.pragma("wal_checkpoint(TRUNCATE)");
  }

  #activate(
    { id, dimensions }: VectorSpaceState,
    space: VectorSpace,
    model: LsaModel | undefined,
    trainedOn = 0,
  ): void {
    const written: SpaceSetting = { number: space.number, id, dimensions, trainedOn };
    writeSetting(this.#dependencies.db, "space", JSON.stringify(written));
    this.#active = { ...written, space, model };
    this.#next = undefined;
    this.#dependencies.onChange();
  }

  /** Takes away what other spaces have left. */
  *#deleteOtherSpaces(): Generator<void> {
    const { db } = this.#dependencies;
    const number = this.#active?.space.number ?? -1;
    const vectors = db.prepare("DELETE FROM vector WHERE chunk > ? AND chunk <= ? AND space <> ?");
    const last = db.prepare<[], number | null>("SELECT max(chunk) FROM vector").pluck().get() ?? 0;
    for (let from = 0; from < last; from += DELETED_PER_STEP) {
      vectors.run(from, from + DELETED_PER_STEP, number);
      yield;
    }
    const learned = db.prepare(
      `DELETE FROM learned WHERE (space, term) IN
       (SELECT space, term FROM learned WHERE space <> ? LIMIT ?)`,
    );
    while (learned.run(number, DELETED_PER_STEP).changes > 0) yield;
  }

  /** A part of all passages, always the same one. */
  *#sample(): Generator<string> {
    const step = Math.max(1, Math.ceil(this.#passages / SAMPLE_MAX));
    const page = this.#dependencies.db.prepare<
      [number, number, number],
      { id: number; text: string }
    >(
      `SELECT id, title || char(10) || title || char(10) || body AS text FROM passage
       WHERE id > ? AND id % ? = 0 ORDER BY id LIMIT ?`,
    );
    for (let after = 0; ; ) {
      const rows = page.all(after, step, TEXTS_A_PAGE);
      for (const { id, text } of rows) {
        after = id;
        yield text;
      }
      if (rows.length < TEXTS_A_PAGE) return;
    }
  }

  #mustLearn(): boolean {
    if (this.#passages < PASSAGES_MIN) return false;
    const before = this.#active?.trainedOn ?? 0;
    return this.#passages > before * GROWN || this.#passages < before * SHRUNK;
  }

  #hasMissing(): boolean {
    const active = this.#active;
    return active !== undefined && active.space.index.size < this.#passages;
  }

  #requestMissing(): void {
    const active = this.#active;
    if (!active || this.#requested || this.#isBusy) return;
    const search = active.space.findUnembedded(REQUEST_TEXTS_MAX);
    let step = search.next();
    while (step.done !== true) step = search.next();
    if (step.value.length === 0) return;
    this.#requested = step.value;
    this.#dependencies.requestEmbeddings(step.value.map(({ text }) => text));
  }

  #countPassages(): number {
    return (
      this.#dependencies.db.prepare<[], number>("SELECT count(*) FROM chunk").pluck().get() ?? 0
    );
  }

  #readSpaceSetting(): SpaceSetting | undefined {
    const text = readSetting(this.#dependencies.db, "space");
    if (text === undefined) return undefined;
    const written: SpaceSetting = JSON.parse(text);
    return written;
  }

  #nextSpaceNumber(): number {
    return (this.#readSpaceSetting()?.number ?? 0) + 1;
  }
}
