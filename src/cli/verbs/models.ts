import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { type OutputFormat, outputOption, withExamples } from "../options.ts";
import { printListing } from "../output/print.ts";
import { modelListing } from "../views/others.ts";

export function addModels(program: Command, cli: Cli): void {
  const models = withExamples(
    program
      .command("models")
      .helpCommand(false)
      .summary("list language models")
      .description("Language models of this server."),
    [["berth models ls", "every model and its state"]],
  );
  models
    .command("ls", { isDefault: true })
    .alias("list")
    .summary("list language models")
    .addOption(outputOption())
    .action(async (flags: { output?: OutputFormat }) => {
      const { models: found } = await (await cli.connect()).models.list();
      await printListing(cli, modelListing(found, cli.colours), flags.output);
    });
}
