import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";

interface AskFlags {
  readonly myStuff?: boolean;
  readonly model?: string;
  readonly json?: boolean;
}

const example = 'berth ask --my-stuff "When was the boiler serviced?"';

export function addAsk(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("ask")
      .summary("have your companion answer, with your things and the tools of apps")
      .description(
        "Asks your companion one question. It may call tools of apps for it, and what changes something is shown and asked about first, as `berth call` does; so is what would leave the machine, unless you have allowed it (`berth remote consent`). Without a terminal the answer to these is no. What comes on standard input belongs to the question. Exit codes: 0 answered, 1 the companion could not be asked, 2 usage, 3 no answer in time, 4 failed, 5 not allowed, 130 cancelled.",
      )
      .argument("<question...>", "what to ask; - for what comes in alone")
      .option("--my-stuff", "look in what the companion may search: `berth search --state`")
      .option("-m, --model <name>", "a model of this machine, or remote:PROVIDER:MODEL")
      .option("--json", "print answer, sources and how it ended, as JSON"),
    [
      [example, "with the passages that it found"],
      ["berth ask put milk on my list", "calls a tool, and asks before"],
      ['git diff | berth ask "Is this right?"', "about what comes in"],
      ["berth ask -m remote:openrouter:openai/gpt-4o Why is the sky blue", "of a provider"],
    ],
  ).action(async (words: string[], flags: AskFlags) => {
    const { readMessage } = await import("../chat/read-message.ts");
    const question = words.length === 1 && words[0] === "-" ? "" : words.join(" ");
    const prompt = await readMessage(cli, question.trim(), example);
    if (prompt === undefined) throw new UsageError("there is no question", example);
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { askCompanion } = await import("../chat/overlay/ask-companion.ts");
    await withCompanion(cli, (companion, signal) =>
      askCompanion(
        cli,
        companion,
        {
          prompt,
          lane: "agent",
          myStuff: flags.myStuff === true,
          model: flags.model,
          history: [],
        },
        flags.json === true,
        signal,
      ),
    );
  });
}
