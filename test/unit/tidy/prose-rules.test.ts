import { describe, expect, test } from "vitest";
import { proseOf, proseProblems } from "../../support/prose-rules.ts";

const source = (text: string) => ({ path: "src/base/thing.ts", text });
const testFile = (text: string) => ({ path: "test/unit/thing.test.ts", text });
const page = (text: string) => ({ path: "docs/page.md", text });

describe("fragments at the beginning of a doc comment", () => {
  const fragments = [
    "Of the address when it was given.",
    "By which an assistant is known again.",
    "As far as it got.",
    "What every route gets.",
    "Whether the engine answers.",
    "Who asks, as far as the system vouches for it.",
    "Whose key it is.",
    "Where the server was found, for messages.",
    "To the nearest second.",
  ];
  test.each(fragments)("%j is refused", (text) => {
    const problems = proseProblems(source(`/** ${text} */\nexport const x = 1;\n`));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain("src/base/thing.ts:1");
    expect(problems[0]).toContain("not with a fragment");
  });

  const sentences = [
    "The address of the connection.",
    "Returns the containers that run.",
    "By default the engine of the machine.",
    "As soon as the lease ends, the next caller gets it.",
    "To verify a ledger, read its checkpoints first.",
    "Offers a port.",
    "Asks the user.",
    "Whatever the engine answers is kept.",
  ];
  test.each(sentences)("%j is accepted", (text) => {
    expect(proseProblems(source(`/** ${text} */\nexport const x = 1;\n`))).toEqual([]);
  });

  test("are accepted in later sentences, in line comments and in Markdown pages", () => {
    const text =
      "/** The port. Of two, the lower one. */\n// Of two, the lower one.\nconst x = 1;\n";
    expect(proseProblems(source(text))).toEqual([]);
    expect(proseProblems(page("Of two ports the lower one is used.\n"))).toEqual([]);
  });
});

describe("banned wordings", () => {
  test.each([
    ["whoever", "Whoever asks gets an answer."],
    ["somebody", "Somebody else has it."],
    ["nobody", "It is used by nobody."],
    ["by way of", "It asks by way of the bus."],
    ["anew", "It reads everything anew."],
    ["so many", "It waits for so many seconds."],
    ["beside", "It runs beside the engine."],
    ["worked out", "The size is worked out."],
    ["undefined where", "The port; undefined where it has none."],
    ["can be had", "The file can be had from the hub."],
    ["put right", "A drift is put right."],
    ["a talk", "It begins a talk."],
  ])("include %s", (word, text) => {
    const files = [
      source(`/** ${text} */\nexport const x = 1;\n`),
      source(`const x = 1;\n// ${text}\nconst y = 2;\n`),
      source(`const x = {\n  a: 1, // ${text}\n};\n`),
      testFile(`test("${text}", () => {});\n`),
      testFile(`describe.each([1])("${text}", () => {});\n`),
      page(`# Page\n\n${text}\n`),
    ];
    for (const file of files) {
      const problems = proseProblems(file);
      expect({ text: file.text, count: problems.length }).toEqual({ text: file.text, count: 1 });
      expect(problems[0]?.toLowerCase()).toContain(`"${word}": write `);
    }
  });

  test("are allowed in code, code spans, strings of programs and fences", () => {
    expect(proseProblems(source('const nobody = "nobody";\n'))).toEqual([]);
    expect(proseProblems(source("/** The user `nobody` owns it. */\n"))).toEqual([]);
    expect(proseProblems(page("The user `nobody`.\n\n```sh\nsu nobody\n```\n"))).toEqual([]);
    expect(proseProblems(source('const url = "https://nobody.example.org";\n'))).toEqual([]);
  });
});

test("a reported problem contains the line of the comment or paragraph", () => {
  const text = "const x = 1;\n\n/**\n * The port\n * of nobody.\n */\nconst y = 2;\n";
  expect(proseProblems(source(text))[0]).toContain("src/base/thing.ts:3");
  expect(proseProblems(page("# A\n\nA line.\nOf nobody.\n"))[0]).toContain("docs/page.md:4");
});

test("a line comment of several lines is checked as one text, so that a wording across two lines is found", () => {
  const found = proseOf(source("const x = 1;\n// It asks by\n// way of the bus.\nconst y = 2;\n"));
  expect(found.map(({ text }) => text)).toEqual(["It asks by way of the bus."]);
});
