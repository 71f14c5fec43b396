import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../cli-errors.ts";
import { addExamples, addFilenameOption } from "../command-options.ts";
import { formatReference } from "../resource-references.ts";
import { requireFiles } from "./apply.ts";

/** Adds the verb `validate`. It needs no server: it applies the same rules as a server. */
export function addValidate(program: Command, cli: Cli): void {
  addExamples(
    addFilenameOption(program.command("validate"))
      .summary("check spec files, without a server")
      .description(
        "Checks spec files by the rules of a server. No server is needed. Prints each problem as file:line:column and exits with 1 if there is any.",
      )
      .option("-q, --quiet", "print only problems"),
    [
      ["berth validate -f specs/", "check every file of a folder"],
      ["berth validate -q -f hello.yaml", "check a file in a script or a commit hook"],
    ],
  ).action(async (files: string[], options: { filename?: string[]; quiet?: boolean }) => {
    const { problemLines, readManifestFiles } = await import("../manifest-files.ts");
    const read = await readManifestFiles(cli, requireFiles(files, options, "validate"));
    if (options.quiet !== true)
      for (const { manifest, file, line } of read.manifests)
        await cli.print(
          `${file}:${line}: ${formatReference(manifest.kind, manifest.metadata.name)} ${cli.colours.green("valid")}`,
        );
    if (read.problems.length > 0) {
      cli.note(problemLines(read.problems));
      const count = read.problems.length;
      cli.note(cli.errorColours.red(`${count} ${count === 1 ? "problem" : "problems"}`));
      cli.exitCode = exitCodes.failed;
    } else if (read.manifests.length === 0) {
      cli.note(`${read.files.length} files declare no resource`);
    }
  });
}
