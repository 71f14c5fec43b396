import { describe, expect, it } from "vitest";
import { parseQueryWords } from "../../../../src/assistant/context/index/search/query-words.ts";
import { extractSnippet } from "../../../../src/assistant/context/index/search/snippet.ts";
import { stem } from "../../../../src/assistant/context/index/text/porter-stemmer.ts";
import {
  extractBigrams,
  splitCamelCase,
} from "../../../../src/assistant/context/index/text/split-words.ts";

describe("stem", () => {
  // From the paper that defines it.
  it.each(
    "caresses:caress ponies:poni cats:cat feed:feed agreed:agre plastered:plaster motoring:motor sing:sing conflated:conflat hopping:hop falling:fall filing:file happy:happi sky:sky relational:relat conditional:condit vietnamization:vietnam operator:oper triplicate:triplic hopeful:hope goodness:good revival:reviv allowance:allow adjustable:adjust adoption:adopt communism:commun effective:effect probate:probat rate:rate cease:ceas controll:control roll:roll naïve:naïve x:x"
      .split(" ")
      .map((pair) => pair.split(":")),
  )("%s is %s", (word, expected) => {
    expect(stem(word ?? "")).toBe(expected);
  });
});

const matches = (query: string) => parseQueryWords(query).map(({ match }) => match);

describe("queryWords", () => {
  it("quotes each word once, in whatever form", () => {
    expect(matches("Run the RUNNING run")).toEqual(['"Run"', '"the"']);
    expect(matches('a" OR title:"x')).toEqual(['"a"', '"OR"', '"title"', '"x"']);
    expect(matches("🚢 !? %")).toEqual([]);
  });

  it("takes pairs of what is written without spaces", () => {
    expect(matches("京都大学 map")).toEqual(['"京都"', '"都大"', '"大学"', '"map"']);
    expect(matches("鹿")).toEqual(['"鹿"*']);
    expect(matches("京都tower")).toEqual(['"京都"', '"tower"']);
  });

  it("has an end", () => {
    const many = Array.from({ length: 500 }, (_, at) => `w${at}`).join(" ");
    expect(matches(many)).toHaveLength(48);
    expect(matches("x".repeat(4_000))).toEqual([]);
  });
});

it("pairs and humps", () => {
  expect(extractBigrams("abc 日本語 x 鹿")).toEqual(["日本", "本語", "鹿"]);
  expect(splitCamelCase("parseHTTPHeader")).toEqual(["parse", "HTTP", "Header"]);
  expect(splitCamelCase("plain")).toEqual([]);
});

describe("snippetOf", () => {
  const filler = "lorem ipsum dolor ".repeat(60);

  it("shows the part with the most different words, and whole ones", () => {
    const text = `kayak ${filler}river and kayak meet ${filler}`;
    const snippet = extractSnippet(text, new Set(["kayak", "river"]));
    expect(snippet).toContain("river and kayak meet");
    expect(snippet.length).toBeGreaterThan(200);
    expect(snippet.length).toBeLessThanOrEqual(300);
    expect(text).toContain(snippet);
    for (const word of snippet.split(" ")) expect(text.split(" ")).toContain(word);
  });

  it("leaves a short text as it is, and cuts no character in two", () => {
    expect(extractSnippet("short\n text", new Set())).toBe("short\n text");
    expect(/\p{Surrogate}/u.test(extractSnippet(`x${"🚢".repeat(500)}`, new Set(["x"])))).toBe(
      false,
    );
  });
});
