import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { declined, UsageError } from "../failure.ts";
import { withExamples } from "../options.ts";
import { formatTable } from "../output/table.ts";
import { canAsk, confirm } from "../prompt.ts";

interface JsonFlag {
  readonly json?: boolean;
}

/** A value may hold 64 KiB; the companion says so itself. */
const INPUT_BYTES_MAX = 1024 * 1024;

export function addMemory(program: Command, cli: Cli): void {
  const memory = withExamples(
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
  withExamples(
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
    const { withCompanion } = await import("../companion/connect.ts");
    const { shownJson, shownText } = await import("../companion/untrusted-text.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      const value = await context.memoryGet(app, key, signal);
      if (flags.json === true) return cli.print(shownJson({ v: 1, app, key, value }));
      await cli.print(cli.io.outputIsTerminal ? shownText(value) : value);
    });
  });
}

function addSet(memory: Command, cli: Cli): void {
  withExamples(
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
    const value = word === "-" ? await valueFromInput(cli) : word;
    const { withCompanion } = await import("../companion/connect.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      await context.memorySet(app, key, value, signal);
      await cli.print(`${app} ${key} is kept`);
    });
  });
}

async function valueFromInput(cli: Cli): Promise<string> {
  const { readAll } = await import("../read-input.ts");
  const bytes = await readAll(cli.io.input, INPUT_BYTES_MAX);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/, "");
  } catch {
    throw new UsageError("standard input is not UTF-8 text", "encode it first, as base64 does");
  }
}

function addList(memory: Command, cli: Cli): void {
  withExamples(
    memory
      .command("ls")
      .alias("list")
      .summary("list keys and values of an app")
      .argument("<app-id>", "id of an app")
      .option("--json", "print what the companion says, as JSON"),
    [["berth memory ls org.example.Notes --json", "for scripts"]],
  ).action(async (app: string, flags: JsonFlag) => {
    const { withCompanion } = await import("../companion/connect.ts");
    const { shownJson, shownLine } = await import("../companion/untrusted-text.ts");
    const { memoryEntries } = await import("../../client/bus/context-wire.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      const document = await context.memoryList(app, signal);
      const entries = memoryEntries(document);
      if (flags.json === true) return cli.print(shownJson(document));
      if (entries.length === 0) return cli.note(`nothing is remembered for ${app}`);
      await cli.print(
        formatTable(
          entries,
          [
            { header: "KEY", value: ([key]) => shownLine(key) },
            { header: "VALUE", value: ([, value]) => shownLine(value), shrinks: true },
          ],
          { width: cli.io.columns },
        ),
      );
    });
  });
}

function addWipe(memory: Command, cli: Cli): void {
  withExamples(
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
      if (!canAsk(cli))
        throw new UsageError("wipe deletes for good, and there is no terminal to ask", "add --yes");
      if (!(await confirm(cli, `Forget everything of ${app}, for good?`)))
        throw declined("nothing was forgotten");
    }
    const { withCompanion } = await import("../companion/connect.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      await context.memoryWipe(app, signal);
      await cli.print(`everything of ${app} is forgotten`);
    });
  });
}
