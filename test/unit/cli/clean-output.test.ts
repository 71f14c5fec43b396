import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { cleanLogLine, cleanText, withCleanOutput } from "../../../src/cli/clean-output.ts";
import { processIo } from "../../../src/cli/io.ts";
import { toYaml } from "../../../src/cli/output/yaml.ts";

const red = (text: string) => `\u001b[31m${text}\u001b[39m`;

describe("text on its way to a terminal", () => {
  it.each([
    ["a cursor movement", "a\u001b[2Ab", "a\\u001b[2Ab"],
    ["a window title", "a\u001b]0;root\u0007b", "a\\u001b]0;root\\u0007b"],
    ["a hidden style", "a\u001b[8mb", "a\\u001b[8mb"],
    ["an 8-bit control sequence", "a\u009b2Jb", "a\\u009b2Jb"],
    ["a carriage return", "a\rb", "a\\u000db"],
    ["the removal of a line", "a\r\u001b[Kb", "a\\u000d\\u001b[Kb"],
    ["a reversed direction", "a\u202eb\u2066c", "a\\u202eb\\u2066c"],
    ["marks of direction", "a\u061cb\u200ec\u200fd", "a\\u061cb\\u200ec\\u200fd"],
    ["NUL, backspace and DEL", "a\u0000\bb\u007f", "a\\u0000\\u0008b\\u007f"],
  ])("shows %s as its escape", (_name, given, shown) => {
    expect(cleanText(given, true)).toBe(shown);
    expect(cleanText(given, false)).toBe(shown);
  });

  it("keeps line breaks, tabs and letters of other languages, and keeps colours only if they are enabled", () => {
    const text = `${red("failed")}\n\tשלום می‌خواهم 👩‍💻 é\n`;
    expect(cleanText(text, true)).toBe(text);
    expect(cleanText(`\r\u001b[K${red("a")}`, true)).toBe(`\r\u001b[K${red("a")}`);
    expect(cleanText("a\r\nb", true)).toBe("a\nb\u0000".slice(0, 3));
    expect(cleanText(red("x"), false)).toBe("\\u001b[31mx\\u001b[39m");
  });

  it("keeps the meaning of JSON and YAML", () => {
    const document = { a: "x\u202e\u0085\u001b[2Jy", "k\u202e": "b", plain: "c d" };
    expect(JSON.parse(cleanText(JSON.stringify(document), true))).toEqual(document);
    expect(parse(cleanText(toYaml(document), false))).toEqual(document);
    expect(toYaml({ plain: "c d" })).toBe("plain: c d\n");
  });

  it("keeps the colours of a log line, and resets them at the end of the line", () => {
    expect(cleanLogLine("\u001b[38;5;9mhi\u001b[2J\u001b]52;c;eA==\u0007")).toBe(
      "\u001b[38;5;9mhi\\u001b[2J\\u001b]52;c;eA==\\u0007\u001b[0m",
    );
    expect(cleanLogLine("plain")).toBe("plain");
  });
});

it("the width of the terminal is the current one, also after the user has resized the terminal", () => {
  let width = 80;
  const io = withCleanOutput({
    ...processIo({}),
    get columns() {
      return width;
    },
    get errorColumns() {
      return width;
    },
  });
  width = 40;
  expect([io.columns, io.errorColumns]).toEqual([40, 40]);
});
