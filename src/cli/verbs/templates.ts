import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples, type OutputFormat, outputOption } from "../command-options.ts";
import { printListing } from "../output/print.ts";
import { createTemplateListing } from "../views/secret-and-template-listings.ts";

export function addTemplates(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("templates")
      .summary("list the templates for new apps")
      .description("Lists the catalog of templates for `berth create NAME --template ID`.")
      .option("--category <name>", "list only this category")
      .addOption(outputOption()),
    [
      ["berth templates", "list the catalog"],
      ["berth describe template postgres", "show the parameters of a template"],
      ["berth create db --template postgres", "create an app from a template"],
    ],
  ).action(async (flags: { output?: OutputFormat; category?: string }) => {
    const { templates } = await (await cli.connect()).templates.list();
    const wanted = templates.filter(
      (template) => flags.category === undefined || template.category === flags.category,
    );
    await printListing(cli, createTemplateListing(wanted), flags.output);
  });
}
