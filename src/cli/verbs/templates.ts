import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples, type OutputFormat, outputOption } from "../command-options.ts";
import { printListing } from "../output/print.ts";
import { createTemplateListing } from "../views/secret-and-template-listings.ts";

export function addTemplates(program: Command, cli: Cli): void {
  addExamples(
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
    await printListing(cli, createTemplateListing(wanted), flags.output);
  });
}
