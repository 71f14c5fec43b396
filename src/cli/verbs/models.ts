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
      .summary("download, start and stop language models")
      .description(
        "Manages the language models of this server: verified files on its disk, and the loaded models, which serve requests at the assistant's endpoint. `berth chat` sends messages to a model.",
      ),
    [
      ["berth models pull Qwen/Qwen2.5-0.5B-Instruct-GGUF --name small", "download a model"],
      ["berth models start small", "load the model, so that it serves requests"],
      ["berth models", "list every model and its state"],
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
        "Lists the models of the server and the files in the assistant's own folder; with --all, also the other models of the catalog.",
      )
      .option("-a, --all", "include the models of the catalog that are not on this server")
      .addOption(
        new Option("--status <status>", "list only models with this status").choices(modelPhases),
      )
      .addOption(outputOption()),
    [
      ["berth models ls", "list the models of this server"],
      ["berth models ls --all", "list the models of the catalog, too"],
      ["berth models ls --status running -o name", "list the names of running models"],
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
          `${hidden} more ${hidden === 1 ? "model is" : "models are"} in the catalog: \`berth models ls --all\``,
        ),
      );
  });
}

function addShow(models: Command, cli: Cli): void {
  addExamples(
    models
      .command("show")
      .alias("inspect")
      .summary("show the details of a model: files, digests, memory, conditions, events")
      .description(
        "Shows the details of a model: its source, its files and their digests, its architecture and size, its use of memory, its conditions and last events, and how to use it.",
      )
      .argument("<model>", "name or id of a model")
      .addOption(outputOption()),
    [["berth models show small", "show the model small"]],
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
