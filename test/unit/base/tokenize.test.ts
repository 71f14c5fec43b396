import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import {
  extractBigrams,
  normalizeWord,
  splitCamelCase,
  splitWords,
  tokenize,
} from "../../../src/base/tokenize.ts";

describe("normalizeWord", () => {
  // The words are examples from Porter's paper on stemming, and words with accents and digits.
  const stems =
    "caresses:caress ponies:poni cats:cat feed:feed agreed:agre plastered:plaster motoring:motor sing:sing conflated:conflat hopping:hop falling:fall filing:file happy:happi sky:sky relational:relat conditional:condit vietnamization:vietnam operator:oper triplicate:triplic hopeful:hope goodness:good revival:reviv allowance:allow adjustable:adjust adoption:adopt communism:commun effective:effect probate:probat rate:rate cease:ceas controll:control roll:roll naïve:naiv CAFÉS:cafe x:x 25ms:25m";
  const pairs = stems.split(" ").map((pair) => pair.split(":"));
  it.each(pairs)("returns the stem of %s: %s", (word, stem) => {
    expect(normalizeWord(word ?? "")).toBe(stem);
  });

  it("returns the terms that FTS5 stores", () => {
    const text = `Größen Übersicht2 naïve connections 1ACTIONS 304s yes ${"long".repeat(15)}s ${"e".repeat(90)}s`;
    const db = new Database(":memory:");
    db.exec(`CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61 remove_diacritics 2');
      CREATE VIRTUAL TABLE term USING fts5vocab (words, 'row')`);
    db.prepare("INSERT INTO words VALUES (?)").run(text);
    const stored = db.prepare<[], string>("SELECT term FROM term").pluck().all();
    db.close();
    expect(splitWords(text).map(normalizeWord).toSorted()).toEqual(stored.toSorted());
  });
});

describe("tokenize", () => {
  it("splits identifiers, ignores case and accents, and reduces words to their stems", () => {
    expect(tokenize("createHTTPEvent task_add files.copy player-next Übersicht2")).toEqual(
      "creat http event task add file copi player next ubersicht2".split(" "),
    );
  });

  it("splits scripts without spaces into pairs of characters", () => {
    expect(tokenize("音楽を再生 Tower京都")).toEqual([
      "音楽",
      "楽を",
      "を再",
      "再生",
      "京都",
      "tower",
    ]);
    expect(extractBigrams("abc 日本語 x 鹿")).toEqual(["日本", "本語", "鹿"]);
  });

  it("returns no parts for a word that cannot be split", () => {
    expect(splitCamelCase("parseHTTPHeader")).toEqual(["parse", "HTTP", "Header"]);
    expect(splitCamelCase("plain")).toEqual([]);
  });
});
