import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createColours } from "../../../src/cli/colours.ts";
import { formatAge, formatDurationMs, formatTime } from "../../../src/cli/format-time.ts";
import { formatChanges } from "../../../src/cli/output/change-lines.ts";
import {
  displayWidth,
  toSingleLine,
  truncateToWidth,
} from "../../../src/cli/output/display-width.ts";
import { type Column, formatTable } from "../../../src/cli/output/table.ts";

interface Row {
  readonly name: string;
  readonly text: string;
}
const columns: Column<Row>[] = [
  { header: "NAME", value: (row) => row.name },
  { header: "TEXT", value: (row) => row.text, canShrink: true },
  { header: "END", value: () => "x" },
];

describe("display width", () => {
  it.each([
    ["abc", 3],
    ["", 0],
    ["日本語", 6],
    ["ｆｕｌｌ", 8],
    ["é", 1],
    ["e\u0301", 1],
    ["😀", 2],
    ["👨‍👩‍👧", 2],
    ["\u001B[31mred\u001B[39m", 3],
    ["한글", 4],
  ])("of %j is %i", (text, width) => {
    expect(displayWidth(text)).toBe(width);
  });

  it("stays within the limit when text is truncated at any column", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme" }),
        fc.integer({ min: 1, max: 30 }),
        (text, width) => {
          const plain = toSingleLine(text);
          expect(displayWidth(truncateToWidth(plain, width))).toBeLessThanOrEqual(width);
        },
      ),
    );
  });

  it("shows control characters of untrusted text as ?", () => {
    expect(toSingleLine("a\u001B[2Jb\nc\td\u0007")).toBe("a?[2Jb c d?");
  });
});

describe("tables of the command line", () => {
  it("may have more rows than a JavaScript function call may have arguments", () => {
    const many = Array.from({ length: 200_000 }, () => "x");
    // Each row, and the header, is one letter and a line break.
    const table = formatTable(many, [{ header: "N", value: (row) => row }]);
    expect(table).toHaveLength(2 * 200_001);
  });

  const rows = [
    { name: "日本", text: "short" },
    { name: "web", text: "a message that goes on and on for quite a while" },
  ];

  it("are padded by display width, without trailing blanks", () => {
    const lines = formatTable(rows, columns).split("\n");
    expect(lines[0]).toBe(`NAME   TEXT${" ".repeat(43)}   END`);
    expect(lines[1]).toBe(`日本   short${" ".repeat(42)}   x`);
    expect(lines.every((line) => line === line.trimEnd())).toBe(true);
  });

  it("are truncated only on a terminal, in the columns that can shrink", () => {
    expect(formatTable(rows, columns)).toContain("quite a while");
    const narrow = formatTable(rows, columns, { width: 40 });
    for (const line of narrow.split("\n")) expect(displayWidth(line)).toBeLessThanOrEqual(40);
    expect(narrow).toContain("a message that goes on and…   x");
  });

  it("shrink long columns evenly, down to a minimum width", () => {
    const two: Column<Row>[] = [
      { header: "A", value: (row) => row.name, canShrink: true },
      { header: "B", value: (row) => row.text, canShrink: true },
    ];
    const row = { name: "n".repeat(60), text: "t".repeat(40) };
    const [, line = ""] = formatTable([row], two, { width: 63 }).split("\n");
    expect(displayWidth(line)).toBe(63);
    expect(line).toMatch(/^n{29,30}… {3}t{28,29}…$/);
    const [, tiny = ""] = formatTable([row], two, { width: 10 }).split("\n");
    expect(tiny).toBe(`${"n".repeat(11)}…   ${"t".repeat(11)}…`);
  });

  it("leave out columns in ascending dropOrder if shrinking is not enough, and keep columns without a dropOrder", () => {
    const many: Column<Row>[] = [
      { header: "NAME", value: (row) => row.name },
      { header: "SECOND", value: () => "2", dropOrder: 2 },
      { header: "FIRST", value: () => "1", dropOrder: 1 },
      { header: "TEXT", value: (row) => row.text, canShrink: true },
    ];
    const row = { name: "name", text: "t".repeat(40) };
    const headAt = (width: number) => formatTable([row], many, { width }).split("\n")[0];
    expect(headAt(36)).toMatch(/^NAME {3}SECOND {3}FIRST {3}TEXT$/);
    expect(headAt(35)).toMatch(/^NAME {3}SECOND {3}TEXT$/);
    expect(headAt(27)).toMatch(/^NAME {3}TEXT$/);
    expect(headAt(5)).toMatch(/^NAME {3}TEXT$/);
    const [, line = ""] = formatTable([row], many, { width: 35 }).split("\n");
    expect(line).toBe(`name   2        ${"t".repeat(18)}…`);
  });

  it('show "-" for an empty cell', () => {
    expect(formatTable([{ name: "a", text: "" }], columns)).toContain("a      -      x");
  });

  it("align coloured cells like plain ones", () => {
    const red: Column<Row>[] = [
      { header: "NAME", value: (row) => row.name, colour: (text) => `\u001B[31m${text}\u001B[39m` },
      { header: "TEXT", value: (row) => row.text },
    ];
    const [head = "", line = ""] = formatTable([{ name: "ab", text: "t" }], red).split("\n");
    expect(head.indexOf("TEXT")).toBe(7);
    expect(line).toBe("\u001B[31mab\u001B[39m     t");
  });

  it("keep their column widths across several tables", () => {
    const widthsMin: number[] = [];
    formatTable([{ name: "a-long-name", text: "t" }], columns, { columnWidthsMin: widthsMin });
    const [head = ""] = formatTable([{ name: "a", text: "t" }], columns, {
      columnWidthsMin: widthsMin,
    }).split("\n");
    expect(head.indexOf("TEXT")).toBe(14);
  });
});

describe("ages in tables", () => {
  it.each([
    [0, "0s"],
    [119_000, "119s"],
    [120_000, "2m"],
    [200_000, "3m20s"],
    [1_800_000, "30m"],
    [3_600_000 * 3.5, "3h30m"],
    [3_600_000 * 30, "30h"],
    [86_400_000 * 3, "3d"],
    [86_400_000 * 800, "2y"],
    [-5, "0s"],
  ])("show the duration %i ms as %s", (durationMs, text) => {
    expect(formatDurationMs(durationMs)).toBe(text);
  });

  it("are empty if the time is missing", () => {
    expect(formatAge(null, 0)).toBe("");
    expect(formatAge("no time", 0)).toBe("");
    expect(formatTime(null, 0)).toBe("-");
  });

  it("show the time, and how long ago or ahead it is", () => {
    expect(formatTime("2030-01-01T00:00:00.500Z", Date.parse("2030-01-01T00:00:10.500Z"))).toBe(
      "2030-01-01 00:00:00 UTC (10s ago)",
    );
    expect(formatTime("2030-01-01T00:00:30Z", Date.parse("2030-01-01T00:00:00Z"))).toBe(
      "2030-01-01 00:00:30 UTC (in 30s)",
    );
  });
});

it("field changes are shown like a diff, with the field names of the manifest", () => {
  const none = createColours(false, {}, true);
  expect(
    formatChanges(
      [
        { path: "/spec/port", after: 80 },
        { path: "/spec/env/A~1B", before: "x" },
        { path: "/spec/image", before: "a:1", after: "a:2" },
        { path: "/metadata/labels/example.org~1team", after: "web" },
      ],
      none,
    ),
  ).toEqual([
    "+ spec.port: 80",
    "- spec.env.A/B: x",
    "~ spec.image: a:1 -> a:2",
    "+ metadata.labels.example.org/team: web",
  ]);
});

it("colours need a terminal, and are disabled by NO_COLOR, --no-color and a dumb terminal", () => {
  expect(createColours(true, {}, true).isColorSupported).toBe(true);
  expect(createColours(false, {}, true).isColorSupported).toBe(false);
  expect(createColours(true, { NO_COLOR: "1" }, true).isColorSupported).toBe(false);
  expect(createColours(true, { TERM: "dumb" }, true).isColorSupported).toBe(false);
  expect(createColours(true, {}, false).isColorSupported).toBe(false);
});
