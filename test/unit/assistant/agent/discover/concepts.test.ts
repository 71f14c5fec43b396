import { describe, expect, it } from "vitest";
import {
  conceptGroups,
  findConcepts,
} from "../../../../../src/assistant/agent/discover/concepts.ts";
import { tokenize } from "../../../../../src/base/tokenize.ts";

const conceptsOf = (text: string) => new Set(findConcepts(tokenize(text)));
const haveOneInCommon = (a: string, b: string) =>
  [...conceptsOf(a)].some((concept) => conceptsOf(b).has(concept));

describe("the concepts of a text", () => {
  it.each([
    ["jot", "a memo"],
    ["write something down", "notes"],
    ["turn the light off", "shut down"],
    ["what I wrote", "writing"],
    ["get rid of it", "deletes"],
    ["my wi-fi", "wireless"],
  ])('are the same for "%s" and "%s"', (a, b) => {
    expect(haveOneInCommon(a, b)).toBe(true);
  });

  it.each([
    ["down I write", "a note"],
    ["turn the big old light in the hall off", "shut down"],
    ["get it rid", "erase"],
    ["", "note"],
  ])('are different for "%s" and "%s"', (a, b) => {
    expect(haveOneInCommon(a, b)).toBe(false);
  });

  it("come from a table in which each group has at least two texts, and no text twice", () => {
    const faulty = conceptGroups.filter((group) => {
      const members = group.split(", ").map((member) => tokenize(member).join(" "));
      return members.length < 2 || new Set(members).size < members.length;
    });
    expect(faulty).toEqual([]);
  });
});
