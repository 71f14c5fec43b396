import type { Command } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { ApplyResultView } from "../../resources/wire/resources.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { getStatusColour } from "../colours.ts";
import {
  addExamples,
  addFilenameOption,
  addWaitOptions,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
  type WaitFlags,
} from "../command-options.ts";
import { waitForAppReady } from "../deploy/wait-for-app-ready.ts";
import { formatChanges, formatPlanSection } from "../output/change-lines.ts";
import { printDocument } from "../output/print.ts";
import { formatReference } from "../resource-references.ts";
import { formatByStack } from "../stacks/format-by-stack.ts";

interface ApplyOptions extends WaitFlags {
  readonly filename?: readonly string[];
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly output?: OutputFormat;
}

export function addApply(program: Command, cli: Cli): void {
  const command = addFilenameOption(program.command("apply"))
    .summary("create or change resources as files declare them")
    .description(
      "Creates or changes resources as the files declare them. Checks all files first, and applies either all of them or none. Uploads the folder that source.local names. Refuses to change a field that a file of the specs folder owns, unless --force is given.",
    )
    .option("--dry-run", "print what would change, and change nothing")
    .option(
      "--force",
      "take over fields that spec files own; a single app also from the import or template that made it",
    )
    .addOption(outputOption());
  addExamples(addWaitOptions(command), [
    ["berth apply -f hello.yaml", "apply one file"],
    [
      "berth apply -f specs/ --wait",
      "apply a folder, and wait until its apps and models are ready",
    ],
    ["cat hello.yaml | berth apply -f -", "apply standard input"],
    ["berth apply -f hello.yaml --dry-run", "show what would change"],
  ]).action(async (files: string[], options: ApplyOptions) => {
    const { readManifestFiles, requireManifests } = await import("../manifest-files.ts");
    const manifests = requireManifests(
      await readManifestFiles(cli, requireFiles(files, options, "apply")),
    );
    const { uploadLocalSources } = await import("../deploy/upload-local-sources.ts");
    const client = await cli.connect();
    const answer = await client.apply({
      manifests: await uploadLocalSources(cli, client, manifests, options.dryRun === true),
      manager: "cli",
      ...(options.dryRun === true ? { dry_run: true } : {}),
      ...(options.force === true ? { force: true } : {}),
    });
    if (isDocumentFormat(options.output)) await printDocument(cli, answer, options.output);
    else if (options.output === "name")
      for (const { kind, name } of answer.results) await cli.print(formatReference(kind, name));
    else
      for (const text of formatByStack(answer.results, (result) =>
        formatResult(cli, result, options.output, answer.dry_run),
      ))
        await cli.print(text);
    if (options.wait !== true || answer.dry_run) return;
    await waitForAll(cli, client, answer.results, options);
  });
}

/** Waits for models first, because apps may need them. All waits together take at most the timeout. */
async function waitForAll(
  cli: Cli,
  client: Client,
  results: readonly ApplyResultView[],
  { timeout, output }: ApplyOptions,
): Promise<void> {
  const deadlineMs = cli.io.now() + timeout;
  const remainingMs = () => Math.max(0, deadlineMs - cli.io.now());
  const models = results.filter(({ kind }) => kind === "Model");
  if (models.length > 0) await waitForModels(cli, client, models, remainingMs);
  const apps = results.filter(({ kind }) => kind === "App");
  const outcomes = await Promise.allSettled(
    apps.map(({ name, generation }) =>
      waitForAppReady(cli, client, name, { timeoutMs: remainingMs(), generation }),
    ),
  );
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  if (output !== undefined) return;
  const lines = [
    ...formatReadyCount(apps.length, "app"),
    ...formatReadyCount(models.length, "model"),
  ];
  if (lines.length > 0) await cli.print(cli.colours.green(lines.join("\n")));
}

async function waitForModels(
  cli: Cli,
  client: Client,
  models: readonly ApplyResultView[],
  remainingMs: () => number,
): Promise<void> {
  const { followModel } = await import("../models/follow-model.ts");
  for (const { name } of models) {
    const { spec } = await client.models.get(name);
    await followModel(cli, client, name, {
      until: spec?.running === true ? "memory" : "disk",
      timeoutMs: remainingMs(),
      isQuiet: !cli.io.errorIsTerminal,
      signal: new AbortController().signal,
    });
  }
}

function formatReadyCount(count: number, noun: string): string[] {
  if (count === 0) return [];
  return [count === 1 ? `the ${noun} is ready` : `all ${count} ${noun}s are ready`];
}

/** Returns the paths of -f and of the arguments. Throws UsageError if there are none. */
export function requireFiles(
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

function formatResult(
  cli: Cli,
  result: ApplyResultView,
  format: OutputFormat | undefined,
  isDryRun: boolean,
): string {
  const reference = formatReference(result.kind, result.name);
  const { colours } = cli;
  const action = getStatusColour(colours, result.action)(result.action);
  const lines = [`${reference} ${action}${isDryRun ? " (dry run)" : ""}`];
  if (isDryRun || format === "wide" || result.action === "configured")
    lines.push(
      ...(result.action === "created" && format !== "wide" && !isDryRun
        ? []
        : formatChanges(result.changes, colours).map((line) => `  ${line}`)),
    );
  if (isDryRun) lines.push(...formatPlanSection(result, colours));
  return lines.join("\n");
}
