import { mkdirSync, rmSync } from "node:fs";
import {
  Searcher,
  type SearcherOptions,
} from "../../src/assistant/context/index/search/searcher.ts";
import { DocumentStore } from "../../src/assistant/context/index/store/document-store.ts";
import { openIndex } from "../../src/assistant/context/index/store/open-index.ts";
import { VectorSpace } from "../../src/assistant/context/index/store/vector-space.ts";
import { CHUNK_CHARACTERS, splitIntoChunks } from "../../src/assistant/context/index/text/chunk.ts";
import type { Page } from "./manual.ts";

/** A search index of Debian's manual pages, with one document for each page. */
export class Corpus {
  readonly #dir: string;
  readonly #db: ReturnType<typeof openIndex>["db"];

  constructor(
    dir: string,
    pages: readonly Page[],
    size: number = CHUNK_CHARACTERS,
    tokenize?: string,
  ) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true });
    const { db } = openIndex(dir);
    this.#db = db;
    if (tokenize !== undefined) {
      db.exec(`DROP TABLE word; DROP TABLE passage_words;
        CREATE VIRTUAL TABLE passage_words USING fts5 (title, body, hidden, content = 'passage',
          content_rowid = 'id', tokenize = '${tokenize}');
        CREATE VIRTUAL TABLE word USING fts5vocab (passage_words, 'row');`);
    }
    db.exec("INSERT INTO source (id, name, path, scope) VALUES (1, 'man', '/man', 'man')");
    const documents = new DocumentStore(db);
    documents.inTransaction(() => {
      for (const { name, document } of pages)
        documents.put({
          source: 1,
          path: name,
          title: document.title,
          size: 0,
          mtimeMs: 0,
          ctimeMs: 0,
          indexedMs: 0,
          sha256: Buffer.alloc(32),
          chunks: splitIntoChunks(document, size),
        });
    });
  }

  get passages(): number {
    return this.#db.prepare<[], number>("SELECT count(*) FROM chunk").pluck().get() ?? 0;
  }

  /** Creates an empty vector space, to which the caller adds the vectors of the passages. */
  createSpace(dimensions: number): VectorSpace {
    return new VectorSpace(this.#db, 1, dimensions);
  }

  /** Creates a searcher for the corpus. `settings` replaces individual default settings of the searcher. */
  searcher(settings: SearcherOptions = {}): Searcher {
    return new Searcher(this.#db, settings);
  }

  close(): void {
    this.#db.close();
    rmSync(this.#dir, { recursive: true });
  }
}
