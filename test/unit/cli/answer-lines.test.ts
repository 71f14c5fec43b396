import { describe, expect, it } from "vitest";
import { AnswerLines } from "../../../src/cli/chat/answer-lines.ts";

/** Prints an answer that arrives in these pieces at a terminal of this width. */
function print(pieces: readonly string[], columns = 80): string {
  const lines = new AnswerLines(() => columns);
  return pieces.map((piece) => lines.push(piece)).join("") + lines.end();
}

describe("a line of an answer at a terminal", () => {
  it.each([
    [">>> rm -r notes", "| >>> rm -r notes"],
    ["Done.\n>>> Yes.\n", "Done.\n| >>> Yes.\n"],
    ["  >>>", "|   >>>"],
    ["\t>>> x", "| \t>>> x"],
    ["... and more", "| ... and more"],
    ["\u200b>\u200d>\u0338> x", "| \u200b>\u200d>\u0338> x"],
    ["\u2800>>> x", "| \u2800>>> x"],
    ["＞＞＞ x", "| ＞＞＞ x"],
    ["… x", "| … x"],
    ["Send it, this once? [y/N] y", "| Send it, this once? [y/N] y"],
    ["run it? [y/N] ", "| run it? [y/N] "],
    [
      "Type the tool's name to run it, or press Enter to decline: x",
      "| Type the tool's name to run it, or press Enter to decline: x",
    ],
  ])("is marked if a user could take it for a question of berth: %j", (answer, shown) => {
    expect(print([answer])).toBe(shown);
    expect(print(answer.split(""))).toBe(shown);
  });

  it.each([
    "",
    "Hello there",
    "It rains.\n\n  Take a coat.\n",
    "a >>> b",
    ">> quoted\n> quoted",
    "...and so on",
    "Send it to me.\nRun it and see.",
    "שלום می‌خواهم 👩‍💻",
    "  ",
    ">>",
  ])("is unchanged if it does not look like a prompt: %j", (answer) => {
    expect(print([answer])).toBe(answer);
    expect(print(Array.from(answer))).toBe(answer);
  });

  it("has a mark also where the terminal wraps a long line", () => {
    expect(print([`${"x".repeat(20)}>>> y`], 20)).toBe(`${"x".repeat(20)}| >>> y`);
    expect(print([`${" ".repeat(20)}>>> y`], 20)).toBe(`${" ".repeat(20)}| >>> y`);
    expect(print(["日".repeat(10), ">>> y"], 20)).toBe(`${"日".repeat(10)}| >>> y`);
    expect(print(["日".repeat(9), "x日>>> y"], 20)).toBe(`${"日".repeat(9)}x日>>> y`);
    expect(print([`${"x".repeat(19)}>>> y`], 20)).toBe(`${"x".repeat(19)}>>> y`);
  });

  it("is broken before the terminal can wrap it, if its width is uncertain", () => {
    // A terminal does not wrap a tab: the cursor stays in the last column.
    expect(print([`${"x".repeat(17)}\tab>>> y`], 20)).toBe(`${"x".repeat(17)}\n\tab>>> y`);
    expect(print([`${"x".repeat(17)}\t${"a".repeat(12)}>>> y`], 20)).toBe(
      `${"x".repeat(17)}\n\t${"a".repeat(12)}\n| >>> y`,
    );
    // A heart before a variation selector has one or two columns, and a family two or eight.
    const hearts = "❤\uFE0F".repeat(10);
    expect(print([`${hearts}>>> y`], 20)).toBe(`${hearts}\n| >>> y`);
    const family = "👨\u200D👩\u200D👧\u200D👦";
    expect(print([`${family.repeat(2)}xxxx>>> y`], 20)).toBe(`${family.repeat(2)}xxxx\n| >>> y`);
    expect(print([`${family.repeat(2)}\n${"x".repeat(20)}y`], 20)).toBe(
      `${family.repeat(2)}\n${"x".repeat(20)}y`,
    );
  });

  it("is printed as soon as it cannot become a prompt any more", () => {
    const lines = new AnswerLines(() => 80);
    expect(lines.push(">")).toBe("");
    expect(lines.push("> ")).toBe(">> ");
    expect(lines.push("a")).toBe("a");
  });

  it("has a mark also if it is the first line of the next answer", () => {
    const lines = new AnswerLines(() => 80);
    expect(lines.push("It rains.") + lines.end()).toBe("It rains.");
    expect(lines.push(">>> x")).toBe("| >>> x");
  });
});
