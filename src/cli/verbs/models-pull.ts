import type { Command } from "commander";
import { formatBytes } from "../../base/units.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  durationOption,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import type { ModelFields } from "../models/declare-model.ts";
import { printModelDryRun } from "../models/print-dry-run.ts";

interface PullFlags
  extends Pick<ModelFields, "quantization" | "file" | "revision" | "sha256" | "credential"> {
  readonly name?: string;
  readonly wait?: boolean;
  readonly timeout?: number;
  readonly quiet?: boolean;
  readonly force?: boolean;
  readonly dryRun?: boolean;
  readonly output?: OutputFormat;
}

export function addPull(models: Command, cli: Cli): void {
  addExamples(
    models
      .command("pull")
      .alias("download")
      .summary("download and verify models")
      .description(
        "Downloads models and verifies them. Resumes an interrupted download, and verifies again a model that is on disk. Ctrl-C stops the progress display, not the download. The files are kept until `berth models rm`.",
      )
      .argument(
        "<model...>",
        "org/name, org/name:QUANTIZATION, a name of the catalog, a URL or a file",
      )
      .option("--quantization <name>", "quantization to download, such as Q4_K_M")
      .option("--file <name>", "file of the repository")
      .option("--revision <name>", "branch, tag or commit of the repository")
      .option("--sha256 <digest>", "expected digest of the file")
      .option("--name <name>", "name of the model on this server")
      .option("--credential <secret>", "Secret with the token for the download")
      .option("--wait", "wait until all files are on disk, or one has failed (the default)")
      .option("--no-wait", "return at once; `berth models ls` shows the progress")
      .addOption(durationOption("--timeout <duration>", "maximum time to wait; default: no limit"))
      .option("-q, --quiet", "show no progress")
      .option("--force", "change the fields even if a spec file owns them")
      .option("--dry-run", "print what would happen, and change nothing")
      .addOption(outputOption()),
    [
      ["berth models pull Qwen/Qwen2.5-0.5B-Instruct-GGUF", "download the usual quantization"],
      ["berth models pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0", "download another quantization"],
      ["berth models pull https://models.example/a.gguf --name a", "download a file from a URL"],
    ],
  ).action(async (words: string[], flags: PullFlags) => {
    const { name: givenName, file, sha256 } = flags;
    if (words.length > 1 && [givenName, file, sha256].some((value) => value !== undefined))
      throw new UsageError("--name, --file and --sha256 need a single model");
    const client = await cli.connect();
    for (const word of words) await pullModel(cli, client, word, flags);
  });
}

async function pullModel(cli: Cli, client: Client, word: string, flags: PullFlags): Promise<void> {
  const name = await requestDownload(cli, client, word, flags);
  if (name === undefined) return;
  const { printFormatted, waitForModelState } = await import("../models/finish-model.ts");
  if (flags.wait === false) {
    if (await printFormatted(cli, await client.models.get(name), flags.output)) return;
    return cli.print(`model/${name} is being downloaded`);
  }
  const model = await waitForModelState(cli, client, name, "disk", flags);
  if (model === undefined || (await printFormatted(cli, model, flags.output))) return;
  await cli.print(formatPulledModel(cli, model));
  if (model.status === "ready" && cli.io.errorIsTerminal)
    cli.note(cli.errorColours.dim(`\`berth models start ${name}\` loads the model`));
}

/**
 * Requests the download, and resolves to the name of the model. For a dry run it prints the result, and resolves to
 * undefined.
 */
async function requestDownload(
  cli: Cli,
  client: Client,
  word: string,
  flags: PullFlags,
): Promise<string | undefined> {
  const { declareModel, parseModelArgument } = await import("../models/declare-model.ts");
  const wanted = parseModelArgument(word, cli.io.workingDirectory);
  const fields = Object.fromEntries(
    (["quantization", "file", "revision", "sha256", "credential"] as const).flatMap((key) =>
      flags[key] === undefined ? [] : [[key, flags[key]]],
    ),
  ) satisfies ModelFields;
  const isDeclared =
    wanted.type === "source" || flags.name !== undefined || Object.keys(fields).length > 0;
  if (flags.dryRun === true) {
    if (isDeclared)
      throw new UsageError(
        "--dry-run cannot be combined with options that set fields of the Model, a URL or a file",
        "`berth apply -f FILE --dry-run` shows what a Model in a spec file would do",
      );
    const write = await client.models.download(word, { dryRun: true });
    if (write.dryRun) await printModelDryRun(cli, write.report);
    return undefined;
  }
  if (isDeclared) {
    const options = { name: flags.name, force: flags.force === true };
    const { name, hasChanged } = await declareModel(client, wanted, fields, options);
    if (hasChanged) return name;
    await client.models.download(name);
    return name;
  }
  const write = await client.models.download(word, { force: flags.force === true });
  return write.dryRun ? write.report.name : write.model.name;
}

/** Formats the name, file, size and digest of a downloaded model. */
function formatPulledModel(cli: Cli, model: ModelDetails): string {
  const { name, status, file, size_bytes: size, sha256, files } = model;
  const parts = [
    files.length > 1 ? `${file ?? "?"} and ${files.length - 1} more files` : (file ?? undefined),
    size === null ? undefined : formatBytes(size),
    sha256 === null ? undefined : `sha256 ${sha256}`,
  ].filter((part) => part !== undefined);
  const state = status === "ready" ? "on disk" : status;
  return `model/${name} is ${cli.colours.green(state)}: ${parts.join(", ")}`;
}
