import { Argument, type Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";
import { fetchCandidates } from "../completion/candidate-sources.ts";
import { complete } from "../completion/complete-command-line.ts";
import { completionScripts, type Shell, shells } from "../completion/scripts.ts";
import { toSingleLine } from "../output/display-width.ts";

export function addCompletion(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("completion")
      .summary("print a shell script that completes verbs, flags and names")
      .addArgument(new Argument("<shell>", "your shell").choices(shells)),
    [
      ["source <(berth completion bash)", "load it in the current bash"],
      [
        "berth completion bash > ~/.local/share/bash-completion/completions/berth",
        "load it in every new bash",
      ],
      ["berth completion fish | source", "load it in the current fish"],
    ],
  ).action((shell: Shell) => cli.print(completionScripts[shell]));

  program
    .command("__complete", { hidden: true })
    .argument("[words...]", "the complete words after berth")
    .option("--current <word>", "the word under the cursor", "")
    .action(async (words: string[], flags: { current: string }) => {
      const { candidates, source, paths } = complete(program, words, flags.current);
      const dynamic = source === undefined ? [] : await fetchCandidates(cli, source);
      const lines = [
        ...candidates,
        ...dynamic.filter(({ value }) => value.startsWith(flags.current)),
      ].map(({ value, description }) => `${toSingleLine(value)}\t${toSingleLine(description)}`);
      await cli.print([...lines, `:${paths}`].join("\n"));
    });
}
