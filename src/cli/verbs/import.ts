import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { type Command, Option } from "commander";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import type { ComposeImport } from "../../compose/import-compose.ts";
import type { Cli } from "../cli.ts";
import { exitCodes, UsageError } from "../cli-errors.ts";
import { addExamples, collectValues } from "../command-options.ts";
import { printDocument } from "../output/print.ts";

interface ImportFlags {
  readonly filename?: readonly string[];
  readonly output?: string;
  readonly namePrefix?: string;
  readonly envFile?: readonly string[];
  readonly useEnvironment?: boolean;
  readonly profile?: readonly string[];
  readonly secrets: "env" | "secret";
  readonly report: "text" | "json";
  readonly quiet?: boolean;
  readonly strict?: boolean;
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

/** Needs no server: what it writes is for `berth apply`, or for the watched folder. */
export function addImport(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("import")
      .summary("make spec files of a Compose file")
      .description(
        "Makes one spec file of each service of a Compose file, and reports each key that is not carried over or means something else, with its line. Ends with 1 where a service could not be converted, and with --strict also where something is lost.",
      )
      .argument("[file...]", "Compose files, laid over each other; default: the one in this folder")
      .option(
        "-f, --filename <path>",
        "Compose file, or - for standard input; can be repeated",
        collectValues,
      )
      .option("-o, --output <dir>", "folder for the spec files; - (default) is standard output")
      .option("--name-prefix <text>", "what the names of all apps begin with, such as blog-")
      .option(
        "--env-file <file>",
        "in place of the .env beside the file; can be repeated",
        collectValues,
      )
      .option("--use-environment", "variables of this shell, too; they go before those of files")
      .option(
        "--profile <name>",
        "take services of this profile in; * is all; can be repeated",
        collectValues,
      )
      .addOption(
        new Option(
          "--secrets <how>",
          "what becomes of variables that look secret: env leaves them as they are, secret makes references to Secrets of them",
        )
          .choices(["env", "secret"])
          .default("env"),
      )
      .addOption(
        new Option("--report <form>", "form of the report")
          .choices(["text", "json"])
          .default("text"),
      )
      .option("-q, --quiet", "no notes in the report")
      .option("--strict", "end with 1 also where something is lost")
      .option("--dry-run", "report only, and write nothing")
      .option("--force", "replace spec files that are there"),
    [
      ["berth import compose.yaml --dry-run", "what would become of it"],
      ["berth import compose.yaml -o specs/blog", "one file for each service"],
      ["berth import -q compose.yaml | berth apply -f -", "at once"],
      ["berth import compose.yaml -o specs --secrets secret", "with passwords kept out of files"],
    ],
  ).action(async (files: string[], flags: ImportFlags) => {
    const folder = resolveOutputFolder(cli, flags.output);
    const { findComposeFiles, createComposeFileReader } = await import("../find-compose-files.ts");
    const paths = findComposeFiles(cli, [...(flags.filename ?? []), ...files]);
    const reader = await createComposeFileReader(cli, paths);
    const { importCompose } = await import("../../compose/import-compose.ts");
    const { environment, workingDirectory } = cli.io;
    const result = importCompose(
      {
        files: paths,
        specFolder: folder ?? workingDirectory,
        envFiles: flags.envFile?.map((file) => resolve(workingDirectory, file)),
        environment: flags.useEnvironment === true ? environmentVariables(environment) : undefined,
        profiles: flags.profile ?? [],
        namePrefix: flags.namePrefix ?? "",
        secrets: flags.secrets,
        home: environment["HOME"],
      },
      reader,
    );
    const texts = await createSpecTexts(
      result,
      paths.map((path) => reader.displayPath(path)),
    );
    const isDryRun = flags.dryRun === true;
    if (!isDryRun && folder !== undefined) {
      await writeSpecs(cli, folder, texts, flags.force === true);
    } else if (!isDryRun && texts.size > 0) await cli.print([...texts.values()].join("---\n"));
    await printReport(cli, result, flags, folder);
    const isLossy = result.findings.some(({ level }) => level === "lost");
    if (
      result.findings.some(({ level }) => level === "failed") ||
      (flags.strict === true && isLossy)
    ) {
      cli.exitCode = exitCodes.failed;
    }
  });
}

/** Undefined for standard output. */
function resolveOutputFolder(cli: Cli, output: string | undefined): string | undefined {
  if (output === undefined || output === "-") return undefined;
  // With other verbs -o is a format; nobody means a folder of that name.
  if (["json", "yaml", "wide", "name"].includes(output)) {
    throw new UsageError(
      `-o names a folder here, and "${output}" is a format`,
      `--report json for the report, or -o ./${output} for a folder of that name`,
    );
  }
  return resolve(cli.io.workingDirectory, output);
}

function environmentVariables(environment: Cli["io"]["environment"]): Map<string, string> {
  return new Map(
    Object.entries(environment).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as const],
    ),
  );
}

async function createSpecTexts(
  result: ComposeImport,
  files: readonly string[],
): Promise<Map<string, string>> {
  const { toYaml } = await import("../output/yaml.ts");
  const { formatSpecHeader } = await import("../views/import-report.ts");
  return new Map(
    result.apps.map(({ service, manifest }) => [
      manifest.metadata.name,
      formatSpecHeader(result, service, files) + toYaml(manifest),
    ]),
  );
}

/** All files or none: what is there already is found before the first one is written. */
async function writeSpecs(
  cli: Cli,
  folder: string,
  texts: ReadonlyMap<string, string>,
  isForced: boolean,
): Promise<void> {
  const present = [...texts.keys()].filter((app) => existsSync(getSpecFilePath(folder, app)));
  if (present.length > 0 && !isForced) {
    const names = present.map((app) => displayPath(cli, getSpecFilePath(folder, app)));
    throw new BerthError(
      "invalid_request",
      `nothing was written: ${names.join(", ")} ${names.length === 1 ? "is" : "are"} there already`,
      { hint: "--force replaces them, -o names another folder" },
    );
  }
  try {
    await mkdir(folder, { recursive: true });
    for (const [app, text] of texts) {
      await writeFile(getSpecFilePath(folder, app), text, { flag: isForced ? "w" : "wx" });
    }
  } catch (error) {
    throw new BerthError("invalid_request", `cannot write the files: ${getErrorMessage(error)}`);
  }
}

function getSpecFilePath(folder: string, app: string): string {
  return join(folder, `${app}.yaml`);
}

function displayPath(cli: Cli, path: string): string {
  const below = relative(cli.io.workingDirectory, path);
  return below.startsWith("..") ? path : below;
}

/** On standard output, unless the specs are there. */
async function printReport(
  cli: Cli,
  result: ComposeImport,
  flags: ImportFlags,
  folder: string | undefined,
): Promise<void> {
  const { createImportDocument, formatImportReport } = await import("../views/import-report.ts");
  const isAnswer = folder !== undefined || flags.dryRun === true;
  if (flags.report === "json") {
    const document = createImportDocument(result, (app) =>
      folder === undefined ? null : displayPath(cli, getSpecFilePath(folder, app)),
    );
    if (isAnswer) await printDocument(cli, document, "json");
    else cli.note(JSON.stringify(document, null, 2));
    return;
  }
  const colours = isAnswer ? cli.colours : cli.errorColours;
  const text = formatImportReport(result, { quiet: flags.quiet === true, colours });
  if (!isAnswer) return cli.note(text);
  await cli.print(text);
  if (flags.dryRun === true || folder === undefined) return;
  for (const { manifest } of result.apps) {
    await cli.print(`${displayPath(cli, getSpecFilePath(folder, manifest.metadata.name))} written`);
  }
}
