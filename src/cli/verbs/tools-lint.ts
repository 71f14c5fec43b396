import { statSync } from "node:fs";
import { homedir } from "node:os";
import { resolve } from "node:path";
import type { Command } from "commander";
import type {
  LintedManifest,
  LintResult,
  LocatedFault,
} from "../../assistant/agent/manifests/lint-manifests.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../cli-errors.ts";
import { addExamples, addJsonOptions, isJsonOutput, type JsonFlags } from "../command-options.ts";
import { sanitizeJson, sanitizeLine } from "../companion/untrusted-text.ts";

interface LintFlags extends JsonFlags {
  readonly quiet?: boolean;
}

/** Adds the verb `tools lint`, which reads the manifests itself and needs no companion. */
export function addToolsLint(tools: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      tools
        .command("lint")
        .summary("check tool manifests, without a companion")
        .description(
          "Checks tool manifests by the rules of the companion. Without a path it checks the folders that your companion reads: ASSISTANT_MANIFEST_PATH, or assistant/manifests/ in $XDG_DATA_HOME and $XDG_DATA_DIRS. Prints each fault as file:line:column and exits with 1 if a manifest is rejected.",
        )
        .argument(
          "[path...]",
          "manifests, or folders of manifests; the first folder takes precedence",
        )
        .option("-q, --quiet", "print only faults"),
      "print the results as JSON",
    ),
    [
      ["berth tools lint", "check the installed manifests"],
      ["berth tools lint org.example.Notes.json", "check one manifest"],
    ],
  ).action(async (paths: string[], flags: LintFlags) => {
    const result = await lintPaths(cli, paths);
    const errors =
      result.problems.length +
      result.manifests.flatMap(({ faults }) => faults.filter(isError)).length;
    if (errors > 0) cli.exitCode = exitCodes.failed;
    if (isJsonOutput(flags)) return cli.print(sanitizeJson(createLintDocument(result)));
    for (const { directory, message } of result.problems) cli.note(`${directory}: ${message}`);
    for (const manifest of result.manifests)
      await printManifest(cli, manifest, flags.quiet === true);
    if (errors > 0) cli.note(cli.errorColours.red(errors === 1 ? "1 error" : `${errors} errors`));
    else if (result.manifests.length === 0) cli.note(formatNoManifest(result));
  });
}

async function lintPaths(cli: Cli, paths: readonly string[]): Promise<LintResult> {
  const { lintManifests } = await import("../../assistant/agent/manifests/lint-manifests.ts");
  const { environment, workingDirectory } = cli.io;
  if (paths.length === 0) {
    return lintManifests({ environment, homeDirectory: environment["HOME"] || homedir() });
  }
  const absolute = paths.map((path) => resolve(workingDirectory, path));
  const [inFolders, alone] = [
    await lintManifests({ directories: absolute.filter(isFolder) }),
    await lintManifests({ files: absolute.filter((path) => !isFolder(path)) }),
  ];
  return { ...inFolders, manifests: [...inFolders.manifests, ...alone.manifests] };
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

async function printManifest(cli: Cli, manifest: LintedManifest, isQuiet: boolean): Promise<void> {
  const { file, faults } = manifest;
  if (!isQuiet) {
    const words = {
      taken: cli.colours.green,
      shadowed: cli.colours.dim,
      rejected: cli.colours.red,
    };
    const by = manifest.shadowedBy === undefined ? "" : ` by ${sanitizeLine(manifest.shadowedBy)}`;
    const status = words[manifest.status](manifest.status);
    await cli.print(`${sanitizeLine(file)}: ${sanitizeLine(manifest.appId)} ${status}${by}`);
    for (const { name, tier, undo } of manifest.tools) {
      await cli.print(`  ${name}  ${tier}${undo === undefined ? "" : `, undone by ${undo}`}`);
    }
  }
  for (const fault of faults) cli.note(formatFault(cli, file, fault));
}

function formatFault(cli: Cli, file: string, fault: LocatedFault): string {
  const { place, severity, pointer, message } = fault;
  const at = place ? `:${place.line}:${place.column}` : "";
  const { red, yellow } = cli.errorColours;
  const word = severity === "error" ? red(severity) : yellow(severity);
  const where = pointer === "" ? "" : `${pointer}: `;
  return `${sanitizeLine(file)}${at}: ${word}: ${sanitizeLine(`${where}${message}`)}`;
}

function isError({ severity }: LocatedFault): boolean {
  return severity === "error";
}

function formatNoManifest({ directories }: LintResult): string {
  return `there is no manifest in ${directories.map(sanitizeLine).join(", ")}`;
}

function createLintDocument({
  directories,
  manifests,
  problems,
}: LintResult): Record<string, unknown> {
  return {
    v: 1,
    directories,
    problems,
    manifests: manifests.map(({ file, appId, status, shadowedBy, tools, faults }) => ({
      file,
      app_id: appId,
      status,
      shadowed_by: shadowedBy ?? null,
      tools: tools.map(({ name, tier, undo }) => ({ name, tier, undo: undo ?? null })),
      faults: faults.map(({ pointer, message, severity, place }) => ({
        pointer,
        severity,
        message,
        line: place?.line ?? null,
        column: place?.column ?? null,
      })),
    })),
  };
}
