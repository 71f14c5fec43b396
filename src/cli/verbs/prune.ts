import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";
import { toSingleLine } from "../output/display-width.ts";
import { formatReference } from "../resource-references.ts";
import { formatByStack } from "../stacks/format-by-stack.ts";

export function addPrune(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("prune")
      .summary("list or confirm deletions that wait for confirmation")
      .description(
        "When many files disappear from the specs folder at once, Berth deletes their resources only after confirmation. This command lists the waiting deletions, and with --confirm runs them.",
      )
      .option("--confirm", "delete the listed resources"),
    [
      ["berth prune", "list the waiting deletions"],
      ["berth prune --confirm", "run the waiting deletions"],
    ],
  ).action(async (flags: { confirm?: boolean }) => {
    const client = await cli.connect();
    const { pending_prune: pending } = await client.specs();
    if (pending.length === 0) return cli.print("no deletion waits for confirmation");
    if (flags.confirm !== true) {
      await cli.print(
        [
          "These resources are no longer declared in the specs folder:",
          ...formatByStack(
            pending,
            ({ kind, name, file }) =>
              `${formatReference(kind, name)} (was in ${toSingleLine(file)})`,
          ).map((line) => `  ${line}`),
        ].join("\n"),
      );
      return cli.print("`berth prune --confirm` deletes them; volumes of apps stay");
    }
    const { pruned } = await client.prune();
    if (pruned.length === 0) return cli.print("no deletion waits any more");
    return cli.print(
      formatByStack(pruned, ({ kind, name }) => `${formatReference(kind, name)} deleting`).join(
        "\n",
      ),
    );
  });
}
