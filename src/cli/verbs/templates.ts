import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { type OutputFormat, outputOption, withExamples } from "../options.ts";
import { printListing } from "../output/print.ts";
import { templateListing } from "../views/others.ts";

export function addTemplates(program: Command, cli: Cli): void {
  withExamples(
    program
      .command("templates")
      .summary("list the catalog of apps to make with one command")
      .description("Lists the catalog: apps that `berth create NAME --template ID` makes.")
      .option("--category <name>", "only this category")
      .addOption(outputOption()),
    [
      ["berth templates", "the catalog"],
      ["berth describe template postgres", "what one takes"],
      ["berth create db --template postgres", "make an app of it"],
    ],
  ).action(async (flags: { output?: OutputFormat; category?: string }) => {
    const { templates } = await (await cli.connect()).templates.list();
    const wanted = templates.filter(
      (template) => flags.category === undefined || template.category === flags.category,
    );
    await printListing(cli, templateListing(wanted), flags.output);
  });
}
