import { expect, it } from "vitest";
import { createColours } from "../../../src/cli/colours.ts";
import { showTools } from "../../../src/cli/companion/show-tools.ts";
import { displayWidth } from "../../../src/cli/output/display-width.ts";

const colours = createColours(false, { NO_COLOR: "1" }, false);
const tool = (name: string, tier: string, description: string) => ({
  appId: "org.example.Notes",
  name,
  tier,
  description,
  isUndoable: tier === "write",
  isDisabled: false,
});
const tools = [
  tool(
    "update_note",
    "write",
    "Gives a note another text, v. 2 of it. The result has the old one.",
  ),
  tool("odd", "read", ""),
  tool("delete_note", "destructive", "Deletes a note.\u001b[2J\nerror: all is lost"),
];
const show = (width: number | undefined, isFull = false) =>
  showTools(tools, isFull, colours, width);

it("berth tools prints one line with the whole description of each tool if the output is a pipe", () => {
  expect(show(undefined).split("\n")).toEqual([
    "APP                 TOOL          TIER          UNDO   DESCRIPTION",
    `org.example.Notes   update_note   write         yes    ${tools[0]?.description}`,
    "org.example.Notes   odd           read          no     -",
    "org.example.Notes   delete_note   destructive   no     Deletes a note.?[2J error: all is lost",
    "",
  ]);
});

it("berth tools prints the first sentence next to each tool in a wide terminal", () => {
  const lines = show(120).split("\n");
  expect(lines[1]).toMatch(/ yes {4}Gives a note another text, v\. 2 of it\.$/);
  expect(lines).toHaveLength(5);
});

it("berth tools prints descriptions below the tools at 80 columns, and never exceeds the width", () => {
  expect(show(80)).toBe(
    [
      "APP                 TOOL          TIER          UNDO",
      "org.example.Notes   update_note   write         yes",
      "  Gives a note another text, v. 2 of it.",
      "org.example.Notes   odd           read          no",
      "org.example.Notes   delete_note   destructive   no",
      "  Deletes a note.?[2J error: all is lost",
      "",
    ].join("\n"),
  );
  for (const width of [60, 72, 80, 100, 119, 200])
    for (const isFull of [false, true])
      for (const line of show(width, isFull).split("\n"))
        expect(displayWidth(line)).toBeLessThanOrEqual(width);
});

it("berth tools prints whole descriptions over several lines if one app is selected", () => {
  expect(show(60, true)).toContain(
    "yes\n  Gives a note another text, v. 2 of it. The result has the\n  old one.\norg",
  );
});
