import type { Command } from "commander";
import type { SpecFileView, SpecsGitView, SpecsView } from "../../resources/wire/system.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../cli-errors.ts";
import { getStatusColour } from "../colours.ts";
import { addExamples, type OutputFormat, outputOption } from "../command-options.ts";
import { formatAge } from "../format-time.ts";
import { toSingleLine } from "../output/display-width.ts";
import { createListing, printListing } from "../output/print.ts";
import { formatReference } from "../resource-references.ts";
import { formatByStack } from "../stacks/format-by-stack.ts";
import { listSpecProblems } from "../status/server-facts.ts";

export function addSpecs(program: Command, cli: Cli): void {
  const verb = addExamples(
    program
      .command("specs")
      .helpCommand(false)
      .summary("list the files of the specs folder, and their problems")
      .description(
        "Lists each file of the watched folder with the resources that it declares, and its problems as file:line:column.",
      )
      .option("--check", "exit with 1 if a file has problems or the folder is not watched")
      .addOption(outputOption()),
    [
      ["berth specs", "list every file"],
      ["berth specs --check", "check the files in a script"],
      ["berth specs sync", "fetch new commits of the specs repository now"],
    ],
  );
  verb
    .command("sync")
    .summary("fetch the repository of the specs now")
    .action(async () => {
      const git = await (await cli.connect()).syncSpecs();
      if (git.state === "failing") cli.exitCode = exitCodes.failed;
      await cli.print(describeGit(cli, git));
    });
  verb.action(async (flags: { output?: OutputFormat; check?: boolean }) => {
    const specs = await (await cli.connect()).specs();
    const isWrong =
      specs.state !== "watching" ||
      specs.git?.state === "failing" ||
      specs.files.some((file) => file.state !== "applied");
    if (flags.check === true && isWrong) cli.exitCode = exitCodes.failed;
    const { colours } = cli;
    const isTable = flags.output === undefined || flags.output === "wide";
    if (isTable) {
      await cli.print(
        `${specs.folder} ${getStatusColour(colours, specs.state)(specs.state)}${specs.message === null ? "" : `: ${specs.message}`}`,
      );
      if (specs.git !== null) await cli.print(describeGit(cli, specs.git));
      if (specs.files.length > 0) await cli.print("");
    }
    const now = cli.io.now();
    await printListing(
      cli,
      createListing<SpecFileView>({
        rows: specs.files,
        columns: [
          { header: "FILE", value: (file) => file.file },
          {
            header: "STATE",
            value: (file) => file.state,
            colour: (text, file) => getStatusColour(colours, file.state)(text),
          },
          {
            header: "DECLARES",
            value: (file) =>
              file.resources.map(({ kind, name }) => formatReference(kind, name)).join(", "),
            canShrink: true,
          },
          { header: "AGE", value: (file) => formatAge(file.time, now), isVolatile: true },
        ],
        wideColumns: [
          {
            header: "TAKEN OVER BY OTHERS",
            value: (file) => file.resources.flatMap(({ yielded }) => yielded).join(", "),
            canShrink: true,
          },
          { header: "SHA256", value: (file) => file.content_hash.slice(0, 12) },
        ],
        name: (file) => file.file,
        document: specs,
        empty: "no files yet: save a spec file there, and Berth creates what it declares",
      }),
      flags.output,
    );
    if (isTable) await printProblems(cli, specs);
  });
}

/**
 * Formats the state of the specs repository: `shop/ from https://host/shop.git (main) following, commit 0123456789ab,
 * applied 5m ago`.
 */
function describeGit(cli: Cli, git: SpecsGitView): string {
  const state = getStatusColour(cli.colours, git.state)(git.state);
  const age =
    git.applied_at === null ? "" : `, applied ${formatAge(git.applied_at, cli.io.now())} ago`;
  const commit = git.commit === null ? "no commit yet" : `commit ${git.commit.slice(0, 12)}${age}`;
  const reason = git.message === null ? "" : `: ${git.message}`;
  const ref = git.ref === null ? "" : ` (${git.ref})`;
  return `${git.folder}/ from ${git.url}${ref} ${state}, ${commit}${reason}`;
}

async function printProblems(cli: Cli, specs: SpecsView): Promise<void> {
  const errors = listSpecProblems(specs);
  if (errors.length > 0) await cli.print(`\n${errors.join("\n")}`);
  if (specs.pending_prune.length > 0)
    await cli.print(
      [
        "",
        cli.colours.yellow(
          "These resources are no longer declared, and wait for `berth prune --confirm`:",
        ),
        ...formatByStack(
          specs.pending_prune,
          ({ kind, name, file }) => `${formatReference(kind, name)} (was in ${toSingleLine(file)})`,
        ).map((line) => `  ${line}`),
      ].join("\n"),
    );
}
