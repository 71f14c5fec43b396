import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { isChatTemplateText } from "../../base/chat-template-text.ts";
import { getErrorMessage } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
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
  readonly chatTemplate?: string;
  readonly deterministic?: boolean;
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
      .summary("load a model into memory, so that it serves requests")
      .description(
        "Loads a model into memory, where it stays until `berth models stop`, even after a restart of the server. Downloads it first if it is not on disk. If memory is short, models that were started earlier are unloaded for it. Ctrl-C stops the progress display, nothing else.",
      )
      .argument("<model>", "name or id of a model")
      .option(
        "--context <tokens>",
        "context length of one request",
        integerBetween(128, 16_777_216),
      )
      .option("--parallel <number>", "number of concurrent requests", integerBetween(1, 256))
      .option(
        "--chat-template <file>",
        "file with a chat template, or its text, in place of the one in the model's file",
      )
      .option("--deterministic", "give the same request the same answer, at the cost of speed")
      .option(
        "--no-deterministic",
        "allow small differences between answers to the same request (not --deterministic)",
      )
      .option("--wait", "wait until the model serves requests, or has failed (the default)")
      .option("--no-wait", "return at once")
      .addOption(durationOption("--timeout <duration>", "maximum time to wait; default: no limit"))
      .option("-q, --quiet", "show no progress")
      .option("--force", "change the fields even if a spec file owns them")
      .option("--dry-run", "print what would happen, and change nothing")
      .addOption(outputOption()),
    [
      ["berth models start small", "load the model small"],
      ["berth models start Qwen/Qwen2.5-0.5B-Instruct-GGUF", "download a model, and load it"],
      ["berth models start small --context 16384", "load the model with a longer context"],
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
      return cli.print(`model/${name} is starting`);
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
    ...(flags.chatTemplate === undefined
      ? {}
      : { chatTemplate: await readTemplate(flags.chatTemplate) }),
    ...(flags.deterministic === undefined ? {} : { deterministic: flags.deterministic }),
  };
  let id = word;
  if (Object.keys(fields).length > 0) {
    const { declareModel } = await import("../models/declare-model.ts");
    id = (await declareModel(client, { type: "id", id: word }, fields, options)).name;
  }
  const write = await client.models.start(id, options);
  return write.dryRun ? write.report.name : write.model.name;
}

/** Returns the text of a chat template. The command reads the file, because the server may be another machine. */
async function readTemplate(textOrFile: string): Promise<string> {
  if (isChatTemplateText(textOrFile)) return textOrFile;
  try {
    return await readFile(textOrFile, "utf8");
  } catch (error) {
    throw new UsageError(
      `--chat-template: ${textOrFile} cannot be read: ${getErrorMessage(error)}`,
      "name a file with a template, such as model.jinja",
    );
  }
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
      .summary("unload a model; it stays on disk")
      .description(
        "Unloads a model; without a name, every running model. Requests in progress have ten seconds to end. The files stay on disk.",
      )
      .argument("[model]", "name or id of a model")
      .option("--force", "stop the model even if a spec file declares that it runs")
      .option("--dry-run", "print what would happen, and change nothing")
      .addOption(outputOption()),
    [
      ["berth models stop", "unload every running model"],
      ["berth models stop small", "unload the model small"],
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
    const what = flags.output === "name" ? "" : accepted ? " is stopping" : " is already stopped";
    await cli.print(stopped.map(({ name }) => `model/${name}${what}`).join("\n"));
  });
}
