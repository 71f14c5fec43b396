import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  adapterProblems,
  allowedRooms,
  assistantProblems,
  circleProblems,
  consoleProblems,
  docPathProblems,
  edgeProblems,
  environmentProblems,
  importsOf,
  nameProblems,
  portProblems,
  roomOf,
  type SourceFile,
  shapeProblems,
} from "./support/tidy-rules.ts";

const root = join(import.meta.dirname, "..");
const sources = filesBelow("src", ".ts");
const docs = [
  ...filesBelow("docs", ".md"),
  ...readdirSync(root)
    .filter((name) => name.endsWith(".md"))
    .map((name) => read(name)),
];

describe("src", () => {
  test("the files were seen", () => {
    expect(sources.length).toBeGreaterThan(40);
    expect(sources.flatMap((file) => importsOf(file.text)).length).toBeGreaterThan(100);
  });

  test("every folder is a room of the table", () => {
    const rooms = new Set(sources.map((file) => roomOf(file.path)));
    expect([...rooms].filter((room) => !(room in allowedRooms) && room !== "main")).toEqual([]);
  });

  test.each([
    ["imports point down", edgeProblems],
    ["the assistant's rooms know what they may", assistantProblems],
    ["adapters are wired in main.ts only", adapterProblems],
    ["ports expose no library", portProblems],
    ["no circles", circleProblems],
    ["names say what is inside", nameProblems],
    ["files are short, by name and no barrels", shapeProblems],
    ["process.env is read in base/config.ts only", environmentProblems],
    ["only the command line prints", consoleProblems],
  ])("%s", (_, problems) => {
    expect(problems(sources)).toEqual([]);
  });
});

describe("documents", () => {
  test("the documents were seen", () => {
    expect(docs.map((doc) => doc.path)).toContain("docs/kinds/App.md");
  });

  test("paths in backticks exist", () => {
    expect(docs.flatMap((doc) => docPathProblems(doc, exists))).toEqual([]);
  });
});

function filesBelow(folder: string, ending: string): SourceFile[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ending))
    .map((name) => read(join(folder, name)));
}

function exists(path: string): boolean {
  return existsSync(join(root, path));
}

function read(path: string): SourceFile {
  return { path: path.replaceAll("\\", "/"), text: readFileSync(join(root, path), "utf8") };
}
