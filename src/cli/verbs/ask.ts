import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  addJsonOptions,
  collectValues,
  isJsonOutput,
  type JsonFlags,
} from "../command-options.ts";

interface AskFlags extends JsonFlags {
  readonly myStuff?: boolean;
  readonly scope?: readonly string[];
  readonly model?: string;
}

const example = 'berth ask --my-stuff "When was the boiler serviced?"';

export function addAsk(program: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      program
        .command("ask")
        .summary("ask your companion, which can use your data and the tools of apps")
        .description(
          "Asks your companion one question. To answer, it may call tools of apps. Before a call that changes something, and before data leaves this machine, it shows what it would do and asks you, unless you have allowed it (`berth remote consent`). Without a terminal it assumes that you decline, and answers without that call. Standard input is part of the question. Exit codes: 0 answered, 1 the companion could not be asked, 2 usage, 3 no answer in time, 4 failed, 5 not allowed, 130 cancelled.",
        )
        .argument("<question...>", "the question; - to read it from standard input only")
        .option("--my-stuff", "search the indexed documents: see `berth search --state`")
        .option(
          "--scope <scope>",
          "search only this scope, which implies --my-stuff; can be repeated",
          collectValues,
        )
        .option("-m, --model <name>", "model of this machine, or remote:PROVIDER:MODEL"),
      "print the answer, its sources and the outcome as JSON",
    ),
    [
      [example, "answer from the indexed documents"],
      [
        "berth ask --scope notes What do I still need to buy",
        "answer from the documents of one scope",
      ],
      ["berth ask put milk on my list", "call a tool, after you have confirmed it"],
      ['git diff | berth ask "Is this right?"', "ask about standard input"],
      [
        "berth ask -m remote:openrouter:openai/gpt-4o Why is the sky blue",
        "ask a provider's model",
      ],
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
          myStuff: flags.myStuff === true || flags.scope !== undefined,
          scopes: flags.scope,
          model: flags.model,
          history: [],
        },
        isJsonOutput(flags),
        signal,
      ),
    );
  });
}
