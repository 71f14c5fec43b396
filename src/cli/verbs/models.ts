import { type Command, Option } from "commander";
import { modelPhases } from "../../resources/model-status.ts";
import type { ModelView } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { addExamples, type OutputFormat, outputOption } from "../command-options.ts";
import { listAllModels } from "../models/list-all-models.ts";
import { printListing } from "../output/print.ts";
import { createModelListing } from "../views/models.ts";
import { addPull } from "./models-pull.ts";
import { addRemove } from "./models-rm.ts";
import { addStart, addStop } from "./models-run.ts";

interface ListFlags {
  readonly all?: boolean;
  readonly status?: ModelView["status"];
  readonly output?: OutputFormat;
}

export function addModels(program: Command, cli: Cli): void {
  const models = addExamples(
    program
      .command("models")
      .helpCommand(false)
      .summary("get, start and stop language models")
      .description(
        "Language models of this server: files on its disk, verified, and what of them is in memory and answers at the assistant's endpoint. `berth chat` talks to one.",
      ),
    [
      ["berth models pull Qwen/Qwen2.5-0.5B-Instruct-GGUF --name small", "bring one onto the disk"],
      ["berth models start small", "load it; it answers from then on"],
      ["berth models", "every model and its state"],
    ],
  );
  addList(models, cli);
  addPull(models, cli);
  addStart(models, cli);
  addStop(models, cli);
  addShow(models, cli);
  addRemove(models, cli);
}

function addList(models: Command, cli: Cli): void {
  addExamples(
    models
      .command("ls", { isDefault: true })
      .alias("list")
      .summary("list language models")
      .description(
        "Lists the models of the server, and files in the assistant's own folder. What only the catalog knows is left out, unless --all is given.",
      )
      .option("-a, --all", "also what the catalog offers and is not here")
      .addOption(new Option("--status <status>", "only those that are so").choices(modelPhases))
      .addOption(outputOption()),
    [
      ["berth models ls", "what is here"],
      ["berth models ls --all", "and what could be"],
      ["berth models ls --status running -o name", "for scripts"],
    ],
  ).action(async (flags: ListFlags) => {
    const all = await listAllModels(await cli.connect());
    const isShown = ({ origin, status }: ModelView) =>
      flags.status === undefined
        ? flags.all === true || origin !== "catalog"
        : status === flags.status;
    const shown = all.filter((model) => isShown(model));
    await printListing(cli, createModelListing(shown, cli.colours), flags.output);
    const hidden = flags.status === undefined ? all.length - shown.length : 0;
    if (hidden > 0 && (flags.output === undefined || flags.output === "wide"))
      cli.note(
        cli.errorColours.dim(
          `${hidden} more ${hidden === 1 ? "is" : "are"} in the catalog: \`berth models ls --all\``,
        ),
      );
  });
}

function addShow(models: Command, cli: Cli): void {
  addExamples(
    models
      .command("show")
      .alias("inspect")
      .summary("tell all about a model: files, digests, memory, conditions, events")
      .description(
        "Tells all about a model: where it comes from, its files and their digests, what its file says of itself, what it takes in memory, its conditions and last events, and how to talk to it.",
      )
      .argument("<model>", "name or id of a model")
      .addOption(outputOption()),
    [["berth models show small", "all about the model small"]],
  ).action(async (word: string, flags: { output?: OutputFormat }) => {
    const client = await cli.connect();
    const model = await client.models.get(word);
    const { printFormatted } = await import("../models/finish-model.ts");
    if (await printFormatted(cli, model, flags.output)) return;
    const { describeModel } = await import("../views/describe-model.ts");
    const { assistantUrl } = await import("../models/assistant-url.ts");
    const options = { colours: cli.colours, nowMs: cli.io.now(), width: cli.io.columns };
    await cli.print(describeModel(model, await assistantUrl(client), options));
  });
}
