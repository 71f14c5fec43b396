import type { Command } from "commander";
import { formatBytes } from "../../base/units.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import {
  addExamples,
  durationOption,
  integerBetween,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { printModelDryRun } from "../models/print-dry-run.ts";

interface StartFlags {
  readonly context?: number;
  readonly parallel?: number;
  readonly wait?: boolean;
  readonly timeout?: number;
  readonly quiet?: boolean;
  readonly force?: boolean;
  readonly dryRun?: boolean;
  readonly output?: OutputFormat;
}

export function addStart(models: Command, cli: Cli): void {
  addExamples(
    models
      .command("start")
      .alias("run")
      .summary("load a model into memory, where it answers")
      .description(
        "Loads a model into memory, where it stays until `berth models stop`, also over restarts of the server. What is not on disk is downloaded first. Where memory is short, it takes the place of models that were started before. Ctrl-C ends the following, and nothing else.",
      )
      .argument("<model>", "name or id of a model")
      .option("--context <tokens>", "of one request", integerBetween(128, 16_777_216))
      .option("--parallel <number>", "requests side by side", integerBetween(1, 256))
      .option("--wait", "return when it answers, or has failed (the default)")
      .option("--no-wait", "return at once")
      .addOption(
        durationOption("--timeout <duration>", "how long to wait; default: as long as it takes"),
      )
      .option("-q, --quiet", "show no progress")
      .option("--force", "also where a spec file owns the fields")
      .option("--dry-run", "tell what would happen, and change nothing")
      .addOption(outputOption()),
    [
      ["berth models start small", "load the model small"],
      ["berth models start Qwen/Qwen2.5-0.5B-Instruct-GGUF", "one that is not here yet"],
      ["berth models start small --context 16384", "with a longer context"],
    ],
  ).action(async (word: string, flags: StartFlags) => {
    const client = await cli.connect();
    if (flags.dryRun === true) {
      const write = await client.models.start(word, { dryRun: true });
      if (write.dryRun) await printModelDryRun(cli, write.report);
      return;
    }
    const name = await requestStart(client, word, flags);
    const { printFormatted, waitForModelState } = await import("../models/finish-model.ts");
    if (flags.wait === false) {
      if (await printFormatted(cli, await client.models.get(name), flags.output)) return;
      return cli.print(`model/${name} starts`);
    }
    const model = await waitForModelState(cli, client, name, "memory", flags);
    if (model === undefined || (await printFormatted(cli, model, flags.output))) return;
    const { createUsageLines } = await import("../views/describe-model.ts");
    const { assistantUrl } = await import("../models/assistant-url.ts");
    await cli.print(
      [formatRunningModel(cli, model), ...createUsageLines(model, await assistantUrl(client))].join(
        "\n",
      ),
    );
  });
}

async function requestStart(client: Client, word: string, flags: StartFlags): Promise<string> {
  const options = { force: flags.force === true };
  const fields = {
    ...(flags.context === undefined ? {} : { contextSize: flags.context }),
    ...(flags.parallel === undefined ? {} : { parallel: flags.parallel }),
  };
  let id = word;
  if (Object.keys(fields).length > 0) {
    const { declareModel } = await import("../models/declare-model.ts");
    id = (await declareModel(client, { type: "id", id: word }, fields, options)).name;
  }
  const write = await client.models.start(id, options);
  return write.dryRun ? write.report.name : write.model.name;
}

function formatRunningModel(cli: Cli, model: ModelDetails): string {
  const { name, context_length: tokens, memory } = model;
  const facts = [
    tokens === null ? undefined : `up to ${tokens} tokens`,
    memory.loaded_bytes === null ? undefined : `${formatBytes(memory.loaded_bytes)} of memory`,
  ].filter((fact) => fact !== undefined);
  const rest = facts.length === 0 ? "" : `: ${facts.join(", ")}`;
  return `model/${name} is ${cli.colours.green("running")}${rest}`;
}

interface StopFlags {
  readonly force?: boolean;
  readonly dryRun?: boolean;
  readonly output?: OutputFormat;
}

export function addStop(models: Command, cli: Cli): void {
  addExamples(
    models
      .command("stop")
      .summary("take a model out of memory; it stays on disk")
      .description(
        "Takes a model out of memory; without a name, every model that runs. What it is answering has ten seconds to end. It stays on disk.",
      )
      .argument("[model]", "name or id of a model")
      .option("--force", "also where a spec file says that it runs")
      .option("--dry-run", "tell what would happen, and change nothing")
      .addOption(outputOption()),
    [
      ["berth models stop", "whatever runs"],
      ["berth models stop small", "one of them"],
    ],
  ).action(async (word: string | undefined, flags: StopFlags) => {
    const client = await cli.connect();
    const options = { force: flags.force === true, dryRun: flags.dryRun === true };
    const stop = await client.models.stop(word, options);
    const { printDocument } = await import("../output/print.ts");
    if (stop.dryRun) {
      if (isDocumentFormat(flags.output)) return printDocument(cli, stop.report, flags.output);
      const lines = stop.report.reports.map(({ name, message }) => `model/${name}: ${message}`);
      return cli.print(lines.join("\n") || "no model runs");
    }
    const { models: stopped, accepted } = stop;
    if (isDocumentFormat(flags.output))
      return printDocument(cli, { models: stopped, total: stopped.length }, flags.output);
    if (stopped.length === 0) {
      cli.note("no model runs");
      return;
    }
    const what = flags.output === "name" ? "" : accepted ? " stops" : " is stopped already";
    await cli.print(stopped.map(({ name }) => `model/${name}${what}`).join("\n"));
  });
}
