import type { SqliteDatabase } from "../../../base/sqlite.ts";
import type { Background } from "./background.ts";
import { LsaModel, trainLsa } from "./lsa/lsa-model.ts";
import type { VectorIndex } from "./search/vectors.ts";
import type { ChunkChange } from "./store/documents.ts";
import { LearnedStore, learnedTerms } from "./store/learned-store.ts";
import { readSetting, writeSetting } from "./store/open-index.ts";
import { VectorSpace } from "./store/vector-space.ts";
import type { SpaceState } from "./worker-protocol.ts";

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
const CLEANED_A_STEP = 1_000;
/** Texts that the embedder is asked for at a time. */
const WANTED = 16;

interface Active extends SpaceState {
  readonly space: VectorSpace;
  /** Undefined where an embedder makes the vectors. */
  readonly model: LsaModel | undefined;
  readonly trainedOn: number;
}

interface Written {
  readonly number: number;
  readonly id: string;
  readonly dimensions: number;
  readonly trainedOn: number;
}

export interface MeaningTools {
  readonly db: SqliteDatabase;
  readonly background: Background;
  /** `awaited`: nothing is done about vectors until `use` says whose they are. */
  readonly embedder: SpaceState | "awaited" | undefined;
  /** Asks the embedder; `take` is called with what it said. */
  readonly want: (texts: readonly string[]) => void;
  readonly onChange: () => void;
  readonly onError: (error: unknown) => void;
}

/** Where vectors come from, which of them count, and that every passage gets one. */
export class Meaning {
  readonly #tools: MeaningTools;
  readonly #learned: LearnedStore;
  #embedder: SpaceState | "awaited" | undefined;
  #active: Active | undefined;
  /** Being filled, to become the active one. */
  #next: VectorSpace | undefined;
  #passages = 0;
  #isBusy = false;
  #isStale = false;
  /** Something went while the lesson was made or read: it may still have its words. */
  #hasLost = false;
  #wanted: readonly { readonly id: number; readonly source: number }[] | undefined;

  constructor(tools: MeaningTools) {
    this.#tools = tools;
    this.#embedder = tools.embedder;
    this.#learned = new LearnedStore(tools.db);
    this.#passages = this.#count();
  }

  get space(): SpaceState | undefined {
    const active = this.#usable();
    return active && { id: active.id, dimensions: active.dimensions };
  }

  /** The vector to search by, and where; undefined where there is none, and words have to do. */
  of(
    query: string,
    given: Float32Array | undefined,
  ): { vector: Float32Array; index: VectorIndex } | undefined {
    const active = this.#usable();
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
  changed({ added, removed }: ChunkChange): void {
    this.#passages += added.length - removed.length;
    if (removed.length > 0 && this.#isBusy) this.#hasLost = true;
    for (const space of [this.#active?.space, this.#next])
      if (space) {
        for (const id of removed) space.index.delete(id);
        space.lookAgain();
      }
  }

  /** Reads what there is, then keeps at it. `hasLost`: texts went since it was last read. */
  start({ hasLost }: { readonly hasLost: boolean }): void {
    this.#hasLost = hasLost;
    this.#begin(this.#load());
  }

  /** The embedder that was awaited. */
  use(embedder: SpaceState): void {
    this.#embedder = embedder;
    // A reading that has not begun yet takes it as it is then.
    if (!this.#isBusy) this.#begin(this.#load());
  }

  /** To be called whenever the sources rest. */
  maintain(): void {
    if (this.#embedder === "awaited") return;
    if (this.#isBusy) this.#isStale = true;
    else if (this.#embedder) this.#ask();
    else if (this.#mustLearn() || this.#lacks()) this.#begin(this.#learn());
  }

  /** What the embedder said to `want`; undefined: it cannot be had now. */
  take(vectors: readonly Float32Array[] | undefined): void {
    const [active, wanted] = [this.#active, this.#wanted];
    this.#wanted = undefined;
    if (!active || !wanted || !vectors) return;
    this.#tools.db.transaction(() => {
      for (const [at, { id, source }] of wanted.entries()) {
        const vector = vectors[at];
        // A passage that is too long for the embedder is near to nothing, and not asked for again.
        if (vector?.length === 0) active.space.add(id, source, new Float32Array(active.dimensions));
        else if (vector?.length === active.dimensions) active.space.add(id, source, vector);
      }
    })();
    this.#ask();
  }

  #usable(): Active | undefined {
    const active = this.#active;
    // With half of the vectors missing, ranks by them would say which passages have one.
    return active && active.space.index.size * 2 >= this.#passages ? active : undefined;
  }

  #begin(work: Generator<void>): void {
    this.#isBusy = true;
    this.#tools.background.add("idle", work, (error) => {
      this.#isBusy = false;
      this.#next = undefined;
      if (error !== undefined) this.#tools.onError(error);
      this.#tools.onChange();
      if (this.#isStale && error === undefined) {
        this.#isStale = false;
        this.maintain();
      }
    });
  }

  *#load(): Generator<void> {
    const embedder = this.#embedder;
    if (embedder === "awaited") return;
    const written = this.#written();
    const { db } = this.#tools;
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
      this.#activate(embedder, new VectorSpace(db, this.#number(), embedder.dimensions), undefined);
    this.#isStale = true;
    yield* this.#clean();
  }

  *#learn(): Generator<void> {
    const { db } = this.#tools;
    if (this.#mustLearn()) {
      this.#hasLost = false;
      const trainedOn = this.#passages;
      const model = yield* trainLsa(() => this.#sample());
      if (model.dimensions > 0) {
        const space = new VectorSpace(db, this.#number(), model.dimensions);
        this.#next = space;
        yield* this.#save(space.number, model);
        yield* this.#fold(space, model);
        const id = `lsa:${space.number}`;
        this.#activate({ id, dimensions: model.dimensions }, space, model, trainedOn);
        if (this.#hasLost) yield* this.#forgetLost(model);
        yield* this.#clean();
      }
    }
    const active = this.#active;
    if (active?.model) yield* this.#fold(active.space, active.model);
  }

  /** Gives a vector to each passage that has none. */
  *#fold(space: VectorSpace, model: LsaModel): Generator<void> {
    space.lookAgain();
    for (;;) {
      const lacking = yield* space.without(FOLDED_A_COMMIT);
      if (lacking.length === 0) return;
      const made: Float32Array[] = [];
      for (const { text } of lacking) {
        made.push(model.embed(text) ?? new Float32Array(model.dimensions));
        if (made.length % FOLDED_A_STEP === 0) yield;
      }
      // What went meanwhile is passed over there.
      this.#tools.db.transaction(() => {
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
      this.#tools.db.transaction(() => this.#learned.save(number, part))();
      yield;
    }
  }

  *#forgetLost({ vocabulary }: LsaModel): Generator<void> {
    const terms = [...vocabulary.places.keys()];
    for (let at = 0; at < terms.length; at += LEARNED_A_STEP) {
      this.#tools.db.transaction(() => this.forget(terms.slice(at, at + LEARNED_A_STEP)))();
      yield;
    }
    this.#tools.db.pragma("wal_checkpoint(TRUNCATE)");
  }

  #activate(
    { id, dimensions }: SpaceState,
    space: VectorSpace,
    model: LsaModel | undefined,
    trainedOn = 0,
  ): void {
    const written: Written = { number: space.number, id, dimensions, trainedOn };
    writeSetting(this.#tools.db, "space", JSON.stringify(written));
    this.#active = { ...written, space, model };
    this.#next = undefined;
    this.#tools.onChange();
  }

  /** Takes away what other spaces have left. */
  *#clean(): Generator<void> {
    const { db } = this.#tools;
    const number = this.#active?.space.number ?? -1;
    const vectors = db.prepare("DELETE FROM vector WHERE chunk > ? AND chunk <= ? AND space <> ?");
    const last = db.prepare<[], number | null>("SELECT max(chunk) FROM vector").pluck().get() ?? 0;
    for (let from = 0; from < last; from += CLEANED_A_STEP) {
      vectors.run(from, from + CLEANED_A_STEP, number);
      yield;
    }
    const learned = db.prepare(
      `DELETE FROM learned WHERE (space, term) IN
       (SELECT space, term FROM learned WHERE space <> ? LIMIT ?)`,
    );
    while (learned.run(number, CLEANED_A_STEP).changes > 0) yield;
  }

  /** A part of all passages, always the same one. */
  *#sample(): Generator<string> {
    const step = Math.max(1, Math.ceil(this.#passages / SAMPLE_MAX));
    const page = this.#tools.db.prepare<[number, number, number], { id: number; text: string }>(
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

  #lacks(): boolean {
    const active = this.#active;
    return active !== undefined && active.space.index.size < this.#passages;
  }

  #ask(): void {
    const active = this.#active;
    if (!active || this.#wanted || this.#isBusy) return;
    const search = active.space.without(WANTED);
    let step = search.next();
    while (step.done !== true) step = search.next();
    if (step.value.length === 0) return;
    this.#wanted = step.value;
    this.#tools.want(step.value.map(({ text }) => text));
  }

  #count(): number {
    return this.#tools.db.prepare<[], number>("SELECT count(*) FROM chunk").pluck().get() ?? 0;
  }

  #written(): Written | undefined {
    const text = readSetting(this.#tools.db, "space");
    if (text === undefined) return undefined;
    const written: Written = JSON.parse(text);
    return written;
  }

  #number(): number {
    return (this.#written()?.number ?? 0) + 1;
  }
}
