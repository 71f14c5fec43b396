import type { Command } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { ApplyResultView } from "../../resources/wire/resources.ts";
import type { Cli } from "../cli.ts";
import { colourOfStatus } from "../colours.ts";
import { waitForReady } from "../deploy/wait.ts";
import { UsageError } from "../failure.ts";
import { referenceOf } from "../kind-names.ts";
import {
  collect,
  type OutputFormat,
  outputOption,
  type WaitFlags,
  withExamples,
  withWait,
} from "../options.ts";
import { changeLines, planSection } from "../output/changes.ts";
import { printDocument } from "../output/print.ts";

interface ApplyOptions extends WaitFlags {
  readonly filename?: readonly string[];
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly output?: OutputFormat;
}

export function addApply(program: Command, cli: Cli): void {
  const command = program
    .command("apply")
    .summary("make resources as files say, all or none")
    .description(
      "Makes or changes resources so that they are as the files say. All files are checked first, and all or none are applied. A folder that source.local names is uploaded. A field that a file of the specs folder owns is refused, unless --force takes it over.",
    )
    .argument("[file...]", "files and folders, as with -f")
    .option(
      "-f, --filename <path>",
      "file, folder or - for standard input; can be repeated",
      collect,
    )
    .option("--dry-run", "tell what would change, and change nothing")
    .option("--force", "take over fields that spec files own")
    .addOption(outputOption());
  withExamples(withWait(command), [
    ["berth apply -f hello.yaml", "apply one file"],
    [
      "berth apply -f specs/ --wait",
      "apply a folder, and wait until its apps and models are ready",
    ],
    ["cat hello.yaml | berth apply -f -", "apply what comes in"],
    ["berth apply -f hello.yaml --dry-run", "see what would change"],
  ]).action(async (files: string[], options: ApplyOptions) => {
    const { readManifestFiles, requireManifests } = await import("../manifest-files.ts");
    const manifests = requireManifests(
      await readManifestFiles(cli, filesOf(files, options, "apply")),
    );
    const { withUploads } = await import("../deploy/local-sources.ts");
    const client = await cli.connect();
    const answer = await client.apply({
      manifests: await withUploads(cli, client, manifests, options.dryRun === true),
      manager: "cli",
      ...(options.dryRun === true ? { dry_run: true } : {}),
      ...(options.force === true ? { force: true } : {}),
    });
    if (options.output === "json" || options.output === "yaml")
      await printDocument(cli, answer, options.output);
    else
      for (const result of answer.results)
        await cli.print(resultText(cli, result, options.output, answer.dry_run));
    if (options.wait !== true || answer.dry_run) return;
    await waitForAll(cli, client, answer.results, options);
  });
}

/** Models come first: apps may wait for them. All of it takes no longer than the time that is given. */
async function waitForAll(
  cli: Cli,
  client: Client,
  results: readonly ApplyResultView[],
  { timeout, output }: ApplyOptions,
): Promise<void> {
  const deadlineMs = cli.io.now() + timeout;
  const leftMs = () => Math.max(0, deadlineMs - cli.io.now());
  const models = results.filter(({ kind }) => kind === "Model");
  if (models.length > 0) await waitForModels(cli, client, models, leftMs);
  const apps = results.filter(({ kind }) => kind === "App");
  const outcomes = await Promise.allSettled(
    apps.map(({ name, generation }) =>
      waitForReady(cli, client, name, { timeoutMs: leftMs(), generation }),
    ),
  );
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  if (output !== undefined) return;
  const told = [...countOf(apps.length, "app"), ...countOf(models.length, "model")];
  if (told.length > 0) await cli.print(cli.colours.green(told.join("\n")));
}

async function waitForModels(
  cli: Cli,
  client: Client,
  models: readonly ApplyResultView[],
  leftMs: () => number,
): Promise<void> {
  const { followModel } = await import("../models/follow.ts");
  for (const { name } of models) {
    const { spec } = await client.models.get(name);
    await followModel(cli, client, name, {
      until: spec?.running === true ? "memory" : "disk",
      timeoutMs: leftMs(),
      isQuiet: !cli.io.errorIsTerminal,
      signal: new AbortController().signal,
    });
  }
}

function countOf(count: number, noun: string): string[] {
  if (count === 0) return [];
  return [count === 1 ? `the ${noun} is ready` : `all ${count} ${noun}s are ready`];
}

/** -f and plain arguments alike. Throws UsageError where there is none. */
export function filesOf(
  files: readonly string[],
  options: { readonly filename?: readonly string[] },
  verb: string,
): string[] {
  const all = [...(options.filename ?? []), ...files];
  if (all.length === 0)
    throw new UsageError(
      `${verb} needs a file`,
      `berth ${verb} -f FILE, or -f - for standard input`,
    );
  return all;
}

function resultText(
  cli: Cli,
  result: ApplyResultView,
  format: OutputFormat | undefined,
  isDryRun: boolean,
): string {
  const reference = referenceOf(result.kind, result.name);
  if (format === "name") return reference;
  const { colours } = cli;
  const action = colourOfStatus(colours, result.action)(result.action);
  const lines = [`${reference} ${action}${isDryRun ? " (dry run)" : ""}`];
  if (isDryRun || format === "wide" || result.action === "configured")
    lines.push(
      ...(result.action === "created" && format !== "wide" && !isDryRun
        ? []
        : changeLines(result.changes, colours).map((line) => `  ${line}`)),
    );
  if (isDryRun) lines.push(...planSection(result, colours));
  return lines.join("\n");
}
