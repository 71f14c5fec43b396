import { describe, expect, it } from "vitest";
import { KnownWords } from "../../../../../src/assistant/agent/discover/known-words.ts";

function knownWords(text: string): KnownWords {
  const words = new KnownWords();
  words.add(text);
  return words;
}

describe("known words", () => {
  const words = knownWords(
    "Deploys the app, searches logs; listApps, shop, screenshot, thermostat",
  );

  it("contain the forms of a word and the parts of identifiers", () => {
    const present = ["deploy", "Deployed", "list", "apps", "LOG"];
    expect(present.filter((word) => words.has(word))).toEqual(present);
    expect(words.has("listapps")).toBe(false);
  });

  it("correct a typing error, but leave a short word unchanged that may be correct", () => {
    expect(words.correct("deplyos")).toEqual(["deploi"]);
    expect(words.correct("lgos")).toEqual(["log"]);
    expect(words.correct("Termostat")).toEqual(["thermostat"]);
    expect(words.correct("thermoztap")).toEqual(["thermostat"]);
    expect(words.correct("show")).toEqual([]);
    expect(words.correct("qwertzuiop")).toEqual([]);
  });

  it("divide a compound", () => {
    expect(words.divide("applogs")).toEqual(["app", "log"]);
    expect(words.divide("appxyz")).toEqual([]);
  });

  it("ignore a word that is longer than any word", () => {
    expect(words.correct("thermostat".repeat(10_000))).toEqual([]);
    expect(words.divide("applogs".repeat(10_000))).toEqual([]);
  });
});
