import type { Command } from "commander";
import { formatBytes } from "../../base/units.ts";
import type { Cli } from "../cli.ts";
import { declinedError, UsageError } from "../cli-errors.ts";
import { addExamples, addJsonOptions, isJsonOutput, type JsonFlags } from "../command-options.ts";
import { formatTable } from "../output/table.ts";
import { canPrompt, confirm } from "../prompt.ts";

/**
 * The maximum number of bytes that the command reads as a value. It is above the companion's limit of 64 KiB, so that
 * the companion itself refuses a value that is too long.
 */
const INPUT_BYTES_MAX = 1024 * 1024;

export function addMemory(program: Command, cli: Cli): void {
  const memory = addExamples(
    program
      .command("memory")
      .helpCommand(false)
      .summary("read and change the values that apps store with your companion")
      .description(
        "Each app stores its own keys and values with your companion, and no other app can read them. You can read and change all of them.",
      ),
    [
      ["berth memory ls", "list the apps that have values"],
      ["berth memory ls org.example.Notes", "list the values of an app"],
      ["berth memory set org.example.Notes sort newest", "set a value"],
      ["berth memory wipe org.example.Notes", "delete all values of an app for good"],
    ],
  );
  addGet(memory, cli);
  addSet(memory, cli);
  addList(memory, cli);
  addWipe(memory, cli);
}

function addGet(memory: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      memory
        .command("get")
        .summary("print a value")
        .description(
          "Prints a value: unchanged to a file or a pipe, without control characters to a terminal.",
        )
        .argument("<app-id>", "id of an app")
        .argument("<key>", "key of the value"),
      "print JSON",
    ),
    [["berth memory get org.example.Notes sort", "print one value"]],
  ).action(async (app: string, key: string, flags: JsonFlags) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { sanitizeJson, sanitizeText } = await import("../companion/untrusted-text.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      const value = await context.memoryGet(app, key, signal);
      if (isJsonOutput(flags)) return cli.print(sanitizeJson({ v: 1, app, key, value }));
      if (cli.io.outputIsTerminal) return cli.print(sanitizeText(value));
      // Writes bytes, so that a pipe receives the value unchanged.
      await cli.io.write(Buffer.from(value.endsWith("\n") ? value : `${value}\n`));
    });
  });
}

function addSet(memory: Command, cli: Cli): void {
  addExamples(
    memory
      .command("set")
      .summary("set a value")
      .argument("<app-id>", "id of an app")
      .argument("<key>", "key of the value")
      .argument("<value>", "the value; - for standard input, without its last line break"),
    [
      ["berth memory set org.example.Notes sort newest", "set a value"],
      [
        "berth memory set org.example.Notes draft - < draft.txt",
        "set the value to the text of a file",
      ],
    ],
  ).action(async (app: string, key: string, word: string) => {
    const value = word === "-" ? await readValueFromInput(cli) : word;
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      await context.memorySet(app, key, value, signal);
      await cli.print(`${app} ${key} is set`);
    });
  });
}

async function readValueFromInput(cli: Cli): Promise<string> {
  const { readAll } = await import("../read-input.ts");
  const bytes = await readAll(cli.io.input, INPUT_BYTES_MAX);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/, "");
  } catch {
    throw new UsageError(
      "standard input is not UTF-8 text",
      "encode the value first, for example with base64",
    );
  }
}

function addList(memory: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      memory
        .command("ls")
        .alias("list")
        .summary("list the apps that have values, or the values of an app")
        .argument("[app-id]", "list the keys and values of this app"),
    ),
    [
      ["berth memory ls", "list the apps that have values"],
      ["berth memory ls org.example.Notes --json", "list the values of an app as JSON"],
    ],
  ).action(async (app: string | undefined, flags: JsonFlags) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { sanitizeJson, sanitizeLine } = await import("../companion/untrusted-text.ts");
    const { parseMemoryEntries } = await import("../../client/bus/context-wire.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      if (app === undefined) return listApps(cli, await context.memoryApps(signal), flags);
      const document = await context.memoryList(app, signal);
      const entries = parseMemoryEntries(document);
      if (isJsonOutput(flags)) return cli.print(sanitizeJson(document));
      if (entries.length === 0) return cli.note(`${app} has no values`);
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

async function listApps(cli: Cli, document: unknown, flags: JsonFlags): Promise<void> {
  const { sanitizeJson, sanitizeLine } = await import("../companion/untrusted-text.ts");
  const { parseMemoryApps } = await import("../../client/bus/context-wire.ts");
  const apps = parseMemoryApps(document);
  if (isJsonOutput(flags)) return cli.print(sanitizeJson(document));
  if (apps.length === 0) return cli.note("no app has values");
  await cli.print(
    formatTable(
      apps,
      [
        { header: "APP", value: ({ app }) => sanitizeLine(app) },
        { header: "KEYS", value: ({ keys }) => String(keys), isRightAligned: true },
        { header: "SIZE", value: ({ bytes }) => formatBytes(bytes), isRightAligned: true },
      ],
      { width: cli.io.columns },
    ),
  );
}

function addWipe(memory: Command, cli: Cli): void {
  addExamples(
    memory
      .command("wipe")
      .summary("delete all values of an app for good")
      .description(
        "Deletes every key and value of an app, so that no byte of them remains in any file. It cannot be undone. On a terminal it asks first.",
      )
      .argument("<app-id>", "id of an app")
      .option("-y, --yes", "do not ask"),
    [["berth memory wipe org.example.Notes --yes", "delete them without asking"]],
  ).action(async (app: string, flags: { yes?: boolean }) => {
    if (flags.yes !== true) {
      if (!canPrompt(cli))
        throw new UsageError(
          "wipe deletes the data for good, and there is no terminal on which to confirm it",
          "add --yes",
        );
      if (!(await confirm(cli, `Delete all values of ${app} for good?`)))
        throw declinedError("nothing was deleted");
    }
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      await context.memoryWipe(app, signal);
      await cli.print(`all values of ${app} are deleted`);
    });
  });
}
