import { resolve } from "node:path";
import { type Command, Option } from "commander";
import type { ComposeImport } from "../../compose/import-compose.ts";
import type { Cli } from "../cli.ts";
import { exitCodes, UsageError } from "../cli-errors.ts";
import { addExamples, collectValues } from "../command-options.ts";
import { printDocument } from "../output/print.ts";
import { displayPath, getSpecFilePath, writeSpecFiles } from "../write-spec-files.ts";

interface ImportFlags {
  readonly filename?: readonly string[];
  readonly output?: string;
  readonly stack?: string;
  readonly envFile?: readonly string[];
  readonly useEnvironment?: boolean;
  readonly profile?: readonly string[];
  readonly secrets: "env" | "secret";
  readonly report: "text" | "json";
  readonly quiet?: boolean;
  readonly public?: readonly string[];
  readonly accept?: "unsafe";
  readonly partial?: boolean;
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
        "Converts each service of a Compose file to a spec file. Reports the line of each key that is not converted or that has another meaning in Berth, and at the end the addresses at which clients outside of this machine reach the apps. Writes nothing and exits with 1 in two cases. First: a service could not be converted; --partial writes the others nevertheless. Second: an app would be less safe than the file requests, or would reach the engine or files outside of the project; --accept unsafe writes it nevertheless. With --strict it also exits with 1 if Berth cannot do something that the file requests.",
      )
      .argument("[file...]", "Compose files, merged in this order; default: the one in this folder")
      .option(
        "-f, --filename <path>",
        "Compose file, or - for standard input; can be repeated",
        collectValues,
      )
      .option("-o, --output <dir>", "folder for the spec files; - (default) is standard output")
      .option(
        "--stack <name>",
        "name of the stack; its apps are called NAME-SERVICE; default: the project's name",
      )
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
      .option(
        "--public <service[:port]>",
        "give a service a domain that the file does not make public; can be repeated",
        collectValues,
      )
      .option("--partial", "write the other services if some cannot be converted")
      .addOption(
        new Option(
          "--accept <level>",
          "write apps that are less safe than the file requests, or reach files outside of the project",
        ).choices(["unsafe"]),
      )
      .addOption(
        new Option(
          "--secrets <how>",
          "how to convert variables that look secret: env keeps their values, secret refers to Secrets",
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
      .option("--strict", "also exit with 1 if Berth cannot do something that the file requests")
      .option("--dry-run", "print the report, and write nothing")
      .option("--force", "replace existing spec files of the same project"),
    [
      ["berth import compose.yaml --dry-run", "show the report"],
      ["berth import compose.yaml -o specs/blog", "write one file for each service"],
      ["berth import compose.yaml --stack shop -o specs/shop", "choose the name of the stack"],
      ["berth import -q compose.yaml | berth apply -f -", "convert and apply at once"],
      ["berth import compose.yaml -o specs --secrets secret", "keep passwords out of the files"],
      ["berth import compose.yaml -o specs --public web:3000", "give the service web a domain"],
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
        stack: flags.stack === undefined ? undefined : parseStackName(flags.stack),
        secrets: flags.secrets,
        publicPorts: parsePublicServices(flags.public ?? []),
        partial: flags.partial === true,
        home: environment["HOME"],
      },
      reader,
    );
    const texts = await createSpecTexts(
      result,
      paths.map((path) => reader.displayPath(path)),
    );
    const refusal = findRefusal(result, flags);
    const isWritten = refusal === undefined && flags.dryRun !== true;
    if (isWritten && folder !== undefined) {
      await writeSpecFiles(cli, folder, result.apps, texts, flags.force === true);
    } else if (isWritten && texts.size > 0) await cli.print([...texts.values()].join("---\n"));
    await printReport(cli, result, flags, folder, isWritten);
    if (refusal !== undefined) cli.note(cli.errorColours.red(refusal));
    const isLossy = result.findings.some(({ level }) => level === "lost");
    const hasFailed = result.findings.some(({ level }) => level === "failed");
    if (refusal !== undefined || hasFailed || (flags.strict === true && isLossy)) {
      cli.exitCode = exitCodes.failed;
    }
  });
}

/**
 * Returns the reason why nothing is written; undefined if the whole Compose file was converted and no app is less safe
 * than the file requests, or if the flags accept these defects.
 */
function findRefusal(
  { findings }: ComposeImport,
  { partial, accept }: ImportFlags,
): string | undefined {
  if (partial !== true && findings.some(({ level }) => level === "failed")) {
    return "nothing is written: a service could not be converted (--partial writes the others)";
  }
  if (accept !== "unsafe" && findings.some(({ level }) => level === "unsafe")) {
    return "nothing is written: an app would be less safe than the file requests, or reach outside of the project (--accept unsafe writes it)";
  }
  return undefined;
}

function parseStackName(text: string): string {
  if (/^[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?$/.test(text)) return text;
  throw new UsageError(
    `--stack: "${text}" is no name of a stack`,
    "use lower-case letters, digits and hyphens",
  );
}

function parsePublicServices(values: readonly string[]): Map<string, number | undefined> {
  return new Map(
    values.map((value) => {
      const [, service = value, port] = /^(.+?)(?::(\d{1,5}))?$/.exec(value) ?? [];
      if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))
        throw new UsageError(`--public ${value}: a port is a number from 1 to 65535`);
      return [service, port === undefined ? undefined : Number(port)] as const;
    }),
  );
}

/** Returns the absolute path of the output folder; undefined for standard output. */
function resolveOutputFolder(cli: Cli, output: string | undefined): string | undefined {
  if (output === undefined || output === "-") return undefined;
  // The user probably means a format, as after -o of other verbs, and not a folder with the name of a format.
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

/** Prints the report on standard output, or on standard error if the specs are written to standard output. */
async function printReport(
  cli: Cli,
  result: ComposeImport,
  flags: ImportFlags,
  folder: string | undefined,
  isWritten: boolean,
): Promise<void> {
  const { createImportDocument, formatImportReport } = await import("../views/import-report.ts");
  const isAnswer = folder !== undefined || !isWritten;
  if (flags.report === "json") {
    const document = createImportDocument(result, (app) =>
      folder === undefined || !isWritten ? null : displayPath(cli, getSpecFilePath(folder, app)),
    );
    if (isAnswer) await printDocument(cli, document, "json");
    else cli.note(JSON.stringify(document, null, 2));
    return;
  }
  const colours = isAnswer ? cli.colours : cli.errorColours;
  const text = formatImportReport(result, { quiet: flags.quiet === true, colours });
  if (!isAnswer) return cli.note(text);
  await cli.print(text);
  if (!isWritten || folder === undefined) return;
  for (const { manifest } of result.apps) {
    await cli.print(`${displayPath(cli, getSpecFilePath(folder, manifest.metadata.name))} written`);
  }
}
