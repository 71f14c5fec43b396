import type { Command } from "commander";
import { expect, it } from "vitest";
import { processIo } from "../../../src/cli/io.ts";
import { buildProgram } from "../../../src/cli/program.ts";
import { runCommandLine } from "../../support/run-cli.ts";

const { program } = buildProgram(processIo({}));
const verbs = program.commands.filter((command) => !command.name().startsWith("__"));

it("berth without a verb prints its purpose, all verbs by group, and first steps", async () => {
  const { code, output, errors } = await runCommandLine([]);
  expect({ code, errors }).toEqual({ code: 0, errors: "" });
  for (const verb of verbs) expect(output).toMatch(new RegExp(`^  ${verb.name()} +\\S`, "m"));
  expect(output).toContain("First steps:");
  expect(Math.max(...output.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
});

it.each(verbs.map((verb) => [verb.name(), verb] as const))(
  "the verb %s has a summary and examples",
  async (name, verb) => {
    expect(verb.summary()).not.toBe("");
    const { code, output } = await runCommandLine([name, "--help"]);
    expect(code).toBe(0);
    expect(output).toContain("Global Options:");
    const leaves = verb.commands.length === 0 ? [verb] : [...verb.commands];
    for (const leaf of leaves) expect(leaf.summary()).not.toBe("");
    expect(output).toMatch(/^Examples:$/m);
  },
);

it("every example is a valid command line", () => {
  for (const line of verbs.flatMap((verb) => examplesOf(verb))) {
    const words = line
      .replace(/ [|<>] .*$| && .*$/, "")
      .split(" ")
      .slice(1);
    const path = commandOf(words);
    const flags = words
      .filter((word) => word.startsWith("-") && word !== "-")
      .map((word) => word.split("=")[0]);
    // A subcommand accepts the flags of its parent commands and of the program.
    const above = [path, path.parent, program].flatMap((command) => command?.options ?? []);
    const known = above.flatMap(({ short, long }) => [short, long]);
    for (const flag of flags)
      expect({ line, known }).toEqual({ line, known: expect.arrayContaining([flag]) });
  }
});

it("an unknown verb or flag is a usage error with a suggestion", async () => {
  const verb = await runCommandLine(["aply"]);
  expect(verb.code).toBe(2);
  expect(verb.errors).toContain("apply");
  const flag = await runCommandLine(["get", "--selecter", "a"]);
  expect(flag.code).toBe(2);
  expect(flag.errors).toContain("--selector");
  expect((await runCommandLine(["logs"])).code).toBe(2);
  expect((await runCommandLine(["get", "-o", "xml"])).code).toBe(2);
  expect((await runCommandLine(["help", "get"])).code).toBe(0);
  expect((await runCommandLine(["--version"])).output).toMatch(/^\d+\.\d+\.\d+/);
});

function commandOf(words: readonly string[]): Command {
  let command = program;
  for (const word of words) {
    const next = command.commands.find(
      (sub) => sub.name() === word || sub.aliases().includes(word),
    );
    if (next === undefined) return command;
    command = next;
  }
  return command;
}

function examplesOf(command: Command): string[] {
  let text = "";
  const output = { writeOut: (part: string) => (text += part) };
  command.configureOutput(output).outputHelp();
  const own = text.split("Examples:\n")[1] ?? "";
  const lines = own
    .split("\n")
    .flatMap((line) => /^ {2}(berth .*?)(?: {2}|$)/.exec(line)?.[1] ?? []);
  return [...lines, ...command.commands.flatMap((sub) => examplesOf(sub))];
}
