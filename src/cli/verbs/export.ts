import { type Command, Option } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { Manifest } from "../../resources/kinds.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { exportManifest } from "../output/export-manifest.ts";
import { parseStackWords } from "../stacks/stack-words.ts";

interface ExportFlags {
  readonly format: "manifests" | "compose";
}

/** Adds the verb `export`, which prints a stack as manifests or as a Compose file. */
export function addExport(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("export")
      .summary("print a stack as manifests, or as a Compose file")
      .description(
        "Prints the apps of a stack for `berth apply`, or as a Compose file for `berth import`, which results in the same apps. Reports on standard error what Compose cannot express. Values of Secrets are never printed: the Compose file has variables for them.",
      )
      .argument("<stack>", "stack/NAME")
      .addOption(
        new Option("--format <format>", "format of the output")
          .choices(["manifests", "compose"])
          .default("manifests"),
      ),
    [
      ["berth export stack/blog > blog.yaml", "save the manifests of the apps"],
      ["berth export stack/blog --format compose > compose.yaml", "save a Compose file"],
    ],
  ).action(async (word: string, { format }: ExportFlags) => {
    const [stack] = parseStackWords([word]) ?? [];
    if (stack === undefined)
      throw new UsageError(
        "export needs the name of a stack: stack/NAME",
        "`berth get app NAME -o yaml --export` prints the manifest of one app",
      );
    const client = await cli.connect();
    const { secrets } = await client.stacks.get(stack);
    const apps = await fetchApps(client, stack);
    await (format === "compose" ? printCompose(cli, stack, apps) : printManifests(cli, apps));
    if (format === "manifests" && secrets.length > 0)
      cli.note(
        `not printed, because their values are secret: ${secrets.map((name) => `secret/${name}`).join(", ")}`,
      );
  });
}

async function fetchApps(client: Client, stack: string): Promise<Manifest<"App">[]> {
  const { items } = await client.resources.list("App");
  return items.flatMap((item) => {
    if (item.metadata.stack !== stack || item.metadata.deletionTimestamp !== null) return [];
    const manifest = exportManifest(item);
    return isApp(manifest) ? [manifest] : [];
  });
}

const isApp = (manifest: object): manifest is Manifest<"App"> =>
  "kind" in manifest && manifest.kind === "App";

async function printManifests(cli: Cli, apps: readonly Manifest<"App">[]): Promise<void> {
  const { toYaml } = await import("../output/yaml.ts");
  await cli.print(apps.map((manifest) => toYaml(manifest)).join("---\n"));
}

async function printCompose(
  cli: Cli,
  stack: string,
  apps: readonly Manifest<"App">[],
): Promise<void> {
  const { exportCompose } = await import("../../compose/export-compose.ts");
  const { toYaml } = await import("../output/yaml.ts");
  const result = exportCompose(stack, apps, cli.io.workingDirectory);
  await cli.print(toYaml(result.document));
  for (const { service, message } of result.findings) cli.note(`${service}: ${message}`);
  if (result.variables.length === 0) return;
  const lines = result.variables.map(({ name, secret, key }) => {
    const value = key === undefined ? "its value" : `its value ${key}`;
    return `  ${name}: in Berth, the value of this variable comes from the Secret ${secret}, ${value}`;
  });
  cli.note(["Compose needs these variables:", ...lines].join("\n"));
}
