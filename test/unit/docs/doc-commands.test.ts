import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { processIo } from "../../../src/cli/io.ts";
import { buildProgram } from "../../../src/cli/program.ts";
import { serverSettingList } from "../../../src/config/server-settings.ts";

const root = join(import.meta.dirname, "../../..");
const { program } = buildProgram(processIo({}));

/** Every `berth ...` command in a shell block, between backticks or in a comment of an example. */
const commands = [
  ...filesBelow("docs", ".md"),
  ...filesBelow("examples", ".yaml"),
  ...readdirSync(root).filter((name) => name.endsWith(".md")),
].flatMap((file) => commandsIn(readFileSync(join(root, file), "utf8")).map((text) => [file, text]));

test("the tests below check more than 15 commands of the documents and examples", () => {
  expect(commands.length).toBeGreaterThan(15);
});

test("the README lists every setting of the server", () => {
  const text = readFileSync(join(root, "README.md"), "utf8");
  const missing = serverSettingList.filter(
    ({ flag, variable }) => !text.includes(`\`${flag}\``) || !text.includes(`\`${variable}\``),
  );
  expect(missing.map(({ key }) => key)).toEqual([]);
});

test.each(commands)("in %s, the verb and the options of `%s` exist", (_, text = "") => {
  expect(problemWith(text)).toBeUndefined();
});

test.each([
  ["berth fly hello", "no verb fly"],
  ["berth get apps --colour", "no option --colour"],
  ["berth delete app hello --volumes", undefined],
  ["berth secrets set db key=value --force", undefined],
])("the check finds the problem of a planted command: %s", (text, problem) => {
  expect(problemWith(text)).toBe(problem);
});

function filesBelow(folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name));
}

function commandsIn(text: string): string[] {
  const inline = [...text.matchAll(/`(berth [a-z][^`\n]*)`/g)];
  const inLines = [...text.matchAll(/^(?:\$ |# .*: )?(berth [a-z][^\n]*?)(?:\s+#.*)?$/gm)];
  // Lines of program output, such as `berth ready ...`, are not commands.
  return [...inline, ...inLines]
    .map((match) => match[1] ?? "")
    .filter((command) => !/^berth (ready|is)\b/.test(command));
}

function problemWith(text: string): string | undefined {
  const [, verb = "", ...words] = text.split(/\s+/);
  let command = program.commands.find((candidate) => isNamed(candidate, verb));
  if (!command && verb !== "help") return `no verb ${verb}`;
  const known = new Set(["-h", "--help"]);
  for (let at = command; at; at = at.parent ?? undefined) note(at, known);
  command = command?.commands.find((candidate) => isNamed(candidate, words[0] ?? ""));
  if (command) note(command, known);
  const option = words
    .filter((word) => /^--?[a-z]/.test(word))
    .map((word) => word.replace(/=.*$/, ""))
    .find((word) => !known.has(word));
  return option === undefined ? undefined : `no option ${option}`;
}

function isNamed(command: Command, name: string): boolean {
  return command.name() === name || command.aliases().includes(name);
}

function note(command: Command, known: Set<string>): void {
  for (const { short, long } of command.options) {
    if (short) known.add(short);
    if (long) known.add(long);
  }
}
