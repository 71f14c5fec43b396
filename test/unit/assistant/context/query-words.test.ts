import { describe, expect, it } from "vitest";
import { parseQueryWords } from "../../../../src/assistant/context/index/search/query-words.ts";
import { extractSnippet } from "../../../../src/assistant/context/index/search/snippet.ts";

const matches = (query: string) => parseQueryWords(query).map(({ match }) => match);

describe("parseQueryWords", () => {
  it("quotes each word once, even if the query has it in several forms", () => {
    expect(matches("Run the RUNNING run")).toEqual(['"Run"', '"the"']);
    expect(matches('a" OR title:"x')).toEqual(['"a"', '"OR"', '"title"', '"x"']);
    expect(matches("🚢 !? %")).toEqual([]);
  });

  it("splits scripts without spaces into pairs of characters", () => {
    expect(matches("京都大学 map")).toEqual(['"京都"', '"都大"', '"大学"', '"map"']);
    expect(matches("鹿")).toEqual(['"鹿"*']);
    expect(matches("京都tower")).toEqual(['"京都"', '"tower"']);
  });

  it("limits the number and the length of words", () => {
    const many = Array.from({ length: 500 }, (_, at) => `w${at}`).join(" ");
    expect(matches(many)).toHaveLength(48);
    expect(matches("x".repeat(4_000))).toEqual([]);
  });
});

describe("extractSnippet", () => {
  const filler = "lorem ipsum dolor ".repeat(60);

  it("returns the part that contains the most distinct words, without cutting words", () => {
    const text = `kayak ${filler}river and kayak meet ${filler}`;
    const snippet = extractSnippet(text, new Set(["kayak", "river"]));
    expect(snippet).toContain("river and kayak meet");
    expect(snippet.length).toBeGreaterThan(200);
    expect(snippet.length).toBeLessThanOrEqual(300);
    expect(text).toContain(snippet);
    for (const word of snippet.split(" ")) expect(text.split(" ")).toContain(word);
  });

  it("finds words with accents and characters of scripts without spaces", () => {
    expect(extractSnippet(`${filler}the cafés here ${filler}`, new Set(["cafe"]))).toContain(
      "cafés",
    );
    expect(extractSnippet(`${filler}京都 here ${filler}`, new Set(["京都"]))).toContain("京都");
  });

  it("returns a short text unchanged, and splits no surrogate pair", () => {
    expect(extractSnippet("short\n text", new Set())).toBe("short\n text");
    expect(/\p{Surrogate}/u.test(extractSnippet(`x${"🚢".repeat(500)}`, new Set(["x"])))).toBe(
      false,
    );
  });
});
