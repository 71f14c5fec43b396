import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { declinedError, UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { formatTable } from "../output/table.ts";
import { canPrompt, confirm } from "../prompt.ts";

interface JsonFlag {
  readonly json?: boolean;
}

/** A value may hold 64 KiB; the companion says so itself. */
const INPUT_BYTES_MAX = 1024 * 1024;

export function addMemory(program: Command, cli: Cli): void {
  const memory = addExamples(
    program
      .command("memory")
      .helpCommand(false)
      .summary("see and keep what apps have your companion remember")
      .description(
        "Each app has keys and values of its own with your companion, which no other app sees. You see all of them.",
      ),
    [
      ["berth memory ls org.example.Notes", "what it remembers for an app"],
      ["berth memory set org.example.Notes sort newest", "one value"],
      ["berth memory wipe org.example.Notes", "all of it, gone for good"],
    ],
  );
  addGet(memory, cli);
  addSet(memory, cli);
  addList(memory, cli);
  addWipe(memory, cli);
}

function addGet(memory: Command, cli: Cli): void {
  addExamples(
    memory
      .command("get")
      .summary("print a value")
      .description(
        "Prints a value: to a file or a pipe as it is, at a terminal without what terminals obey.",
      )
      .argument("<app-id>", "id of an app")
      .argument("<key>", "the key")
      .option("--json", "print JSON"),
    [["berth memory get org.example.Notes sort", "one value"]],
  ).action(async (app: string, key: string, flags: JsonFlag) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { sanitizeJson, sanitizeText } = await import("../companion/untrusted-text.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      const value = await context.memoryGet(app, key, signal);
      if (flags.json === true) return cli.print(sanitizeJson({ v: 1, app, key, value }));
      await cli.print(cli.io.outputIsTerminal ? sanitizeText(value) : value);
    });
  });
}

function addSet(memory: Command, cli: Cli): void {
  addExamples(
    memory
      .command("set")
      .summary("keep a value")
      .argument("<app-id>", "id of an app")
      .argument("<key>", "the key")
      .argument("<value>", "the value; - for standard input, without its last line break"),
    [
      ["berth memory set org.example.Notes sort newest", "one value"],
      ["berth memory set org.example.Notes draft - < draft.txt", "what stands in a file"],
    ],
  ).action(async (app: string, key: string, word: string) => {
    const value = word === "-" ? await readValueFromInput(cli) : word;
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      await context.memorySet(app, key, value, signal);
      await cli.print(`${app} ${key} is kept`);
    });
  });
}

async function readValueFromInput(cli: Cli): Promise<string> {
  const { readAll } = await import("../read-input.ts");
  const bytes = await readAll(cli.io.input, INPUT_BYTES_MAX);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/, "");
  } catch {
    throw new UsageError("standard input is not UTF-8 text", "encode it first, as base64 does");
  }
}

function addList(memory: Command, cli: Cli): void {
  addExamples(
    memory
      .command("ls")
      .alias("list")
      .summary("list keys and values of an app")
      .argument("<app-id>", "id of an app")
      .option("--json", "print what the companion says, as JSON"),
    [["berth memory ls org.example.Notes --json", "for scripts"]],
  ).action(async (app: string, flags: JsonFlag) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { sanitizeJson, sanitizeLine } = await import("../companion/untrusted-text.ts");
    const { parseMemoryEntries } = await import("../../client/bus/context-wire.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      const document = await context.memoryList(app, signal);
      const entries = parseMemoryEntries(document);
      if (flags.json === true) return cli.print(sanitizeJson(document));
      if (entries.length === 0) return cli.note(`nothing is remembered for ${app}`);
      await cli.print(
        formatTable(
          entries,
          [
            { header: "KEY", value: ([key]) => sanitizeLine(key) },
            { header: "VALUE", value: ([, value]) => sanitizeLine(value), canShrink: true },
          ],
          { width: cli.io.columns },
        ),
      );
    });
  });
}

function addWipe(memory: Command, cli: Cli): void {
  addExamples(
    memory
      .command("wipe")
      .summary("forget everything of an app, for good")
      .description(
        "Deletes every key and value of an app, so that no byte of them is left in any file. It cannot be undone. At a terminal it asks first.",
      )
      .argument("<app-id>", "id of an app")
      .option("-y, --yes", "do not ask"),
    [["berth memory wipe org.example.Notes --yes", "without being asked"]],
  ).action(async (app: string, flags: { yes?: boolean }) => {
    if (flags.yes !== true) {
      if (!canPrompt(cli))
        throw new UsageError("wipe deletes for good, and there is no terminal to ask", "add --yes");
      if (!(await confirm(cli, `Forget everything of ${app}, for good?`)))
        throw declinedError("nothing was forgotten");
    }
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      await context.memoryWipe(app, signal);
      await cli.print(`everything of ${app} is forgotten`);
    });
  });
}
