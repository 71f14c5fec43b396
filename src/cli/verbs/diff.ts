import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import {
  addExamples,
  addFilenameOption,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { formatChanges, formatPlanSection } from "../output/change-lines.ts";
import { printDocument } from "../output/print.ts";
import { formatReference } from "../resource-references.ts";
import { formatByStack } from "../stacks/format-by-stack.ts";
import { requireFiles } from "./apply.ts";

interface DiffOptions {
  readonly filename?: readonly string[];
  readonly force?: boolean;
  readonly output?: OutputFormat;
}

/**
 * Adds the verb `diff`, whose exit codes are those of diff(1): 0 if nothing differs, 1 if something differs, 2 after an
 * error.
 */
export function addDiff(program: Command, cli: Cli): void {
  addExamples(
    addFilenameOption(program.command("diff"))
      .summary("compare files with the resources of the server")
      .description(
        "Shows what `berth apply` would change, and what the server would then do. Exits with 0 if there are no differences, 1 if there are some, 2 on an error.",
      )
      .option("--force", "compare as `berth apply --force` does")
      .addOption(outputOption()),
    [
      ["berth diff -f hello.yaml", "compare one file"],
      ["berth diff -f specs/ && echo same", "compare a folder in a script"],
    ],
  ).action(async (files: string[], options: DiffOptions) => {
    const { readManifestFiles, requireManifests } = await import("../manifest-files.ts");
    const manifests = requireManifests(
      await readManifestFiles(cli, requireFiles(files, options, "diff")),
    );
    const { uploadLocalSources } = await import("../deploy/upload-local-sources.ts");
    const client = await cli.connect();
    const answer = await client.apply({
      manifests: await uploadLocalSources(cli, client, manifests, true),
      manager: "cli",
      dry_run: true,
      ...(options.force === true ? { force: true } : {}),
    });
    const different = answer.results.filter((result) => result.action !== "unchanged");
    if (different.length > 0) cli.exitCode = 1;
    if (isDocumentFormat(options.output)) return printDocument(cli, answer, options.output);
    const { colours } = cli;
    const texts =
      options.output === "name"
        ? different.map(({ kind, name }) => formatReference(kind, name))
        : formatByStack(different, (result) =>
            [
              `${colours.bold(formatReference(result.kind, result.name))}${result.action === "created" ? " (new)" : ""}`,
              ...formatChanges(result.changes, colours).map((line) => `  ${line}`),
              ...formatPlanSection(result, colours),
            ].join("\n"),
          );
    for (const text of texts) await cli.print(text);
  });
}
