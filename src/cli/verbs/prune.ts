import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";
import { formatReference } from "../resource-references.ts";

export function addPrune(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("prune")
      .summary("let deletions go ahead that were held back")
      .description(
        "When many files vanish from the specs folder at once, Berth deletes nothing before a person has said so. This lists what waits, and with --confirm deletes it.",
      )
      .option("--confirm", "delete what waits"),
    [
      ["berth prune", "see what waits"],
      ["berth prune --confirm", "delete it"],
    ],
  ).action(async (flags: { confirm?: boolean }) => {
    const client = await cli.connect();
    const { pending_prune: pending } = await client.specs();
    if (pending.length === 0) return cli.print("nothing waits to be deleted");
    if (flags.confirm !== true) {
      await cli.print(
        [
          "These are declared no more:",
          ...pending.map(
            ({ kind, name, file }) => `  ${formatReference(kind, name)} (was in ${file})`,
          ),
        ].join("\n"),
      );
      return cli.print("`berth prune --confirm` deletes them; volumes of apps stay");
    }
    const { pruned } = await client.prune();
    if (pruned.length === 0) return cli.print("nothing waits any more");
    return cli.print(
      pruned.map(({ kind, name }) => `${formatReference(kind, name)} deleting`).join("\n"),
    );
  });
}
