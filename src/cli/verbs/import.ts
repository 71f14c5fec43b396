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

/** Adds the verb `import`. It needs no server: it writes spec files for `berth apply` or the watched folder. */
export function addImport(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("import")
      .summary("convert a Compose file to spec files")
      .description(
        "Converts each service of a Compose file to a spec file, and reports, with its line, each key that is not converted or has another meaning. Exits with 1 if a service could not be converted, and with --strict also if anything is lost.",
      )
      .argument("[file...]", "Compose files, merged in this order; default: the one in this folder")
      .option(
        "-f, --filename <path>",
        "Compose file, or - for standard input; can be repeated",
        collectValues,
      )
      .option("-o, --output <dir>", "folder for the spec files; - (default) is standard output")
      .option("--name-prefix <text>", "prefix for the names of all apps, such as blog-")
      .option(
        "--env-file <file>",
        "env file to read instead of the project's .env; can be repeated",
        collectValues,
      )
      .option(
        "--use-environment",
        "also use the variables of this shell, which override those of files",
      )
      .option(
        "--profile <name>",
        "include the services of this profile; * includes all; can be repeated",
        collectValues,
      )
      .addOption(
        new Option(
          "--secrets <how>",
          "conversion of variables that look secret: env keeps their values, secret refers to Secrets",
        )
          .choices(["env", "secret"])
          .default("env"),
      )
      .addOption(
        new Option("--report <form>", "format of the report")
          .choices(["text", "json"])
          .default("text"),
      )
      .option("-q, --quiet", "omit notes from the report")
      .option("--strict", "exit with 1 also if anything is lost")
      .option("--dry-run", "print the report, and write nothing")
      .option("--force", "replace existing spec files"),
    [
      ["berth import compose.yaml --dry-run", "show the report"],
      ["berth import compose.yaml -o specs/blog", "write one file for each service"],
      ["berth import -q compose.yaml | berth apply -f -", "convert and apply at once"],
      ["berth import compose.yaml -o specs --secrets secret", "keep passwords out of the files"],
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

/** The absolute path of the output folder; undefined for standard output. */
function resolveOutputFolder(cli: Cli, output: string | undefined): string | undefined {
  if (output === undefined || output === "-") return undefined;
  // Other verbs expect a format after -o; a folder of such a name is unlikely.
  if (["json", "yaml", "wide", "name"].includes(output)) {
    throw new UsageError(
      `-o names a folder here, but "${output}" is a format`,
      `use --report json for the report, or -o ./${output} for a folder of that name`,
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

/** Writes all files or none: checks for existing files before it writes the first one. */
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
      `nothing was written: ${names.join(", ")} already ${names.length === 1 ? "exists" : "exist"}`,
      { hint: "replace them with --force, or choose another folder with -o" },
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

/** Prints the report on standard output, or on standard error if the specs are written to standard output. */
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
