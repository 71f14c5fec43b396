import type { Command } from "commander";
import { formatBytes } from "../../base/units.ts";
import type { AppItem } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { getStatusColour } from "../colours.ts";
import {
  addExamples,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { formatDurationMs } from "../format-time.ts";
import { formatFields } from "../output/format-sections.ts";
import { printDocument } from "../output/print.ts";
import {
  apiUrlField,
  colourComponent,
  companionField,
  describeAssistant,
  describeIngress,
  describeOtherWriter,
  readServerFacts,
} from "../status/server-facts.ts";

export function addStatus(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("status")
      .summary("show the state of a server, and what needs attention")
      .description(
        "Shows the state of the server, its engine, ingress, assistant, companion, apps and models, and what needs attention.",
      )
      .addOption(outputOption()),
    [["berth status", "show the state of the server"]],
  ).action(async (flags: { output?: OutputFormat }) => {
    const client = await cli.connect();
    const { health, info, specs, apps, models } = await readServerFacts(client);
    if (isDocumentFormat(flags.output))
      return printDocument(cli, { url: client.origin, health, info, specs }, flags.output);
    const { colours } = cli;
    const { engine, counts, memory, disk } = info;
    const invalid = specs.files.filter((file) => file.state !== "applied").length;
    await cli.print(
      formatFields([
        [
          "Server",
          `${client.origin}, Berth ${health.version}, up ${formatDurationMs(health.uptime_seconds * 1000)}`,
        ],
        [
          "Health",
          [getStatusColour(colours, health.status)(health.status), health.message]
            .filter(Boolean)
            .join(": "),
        ],
        [
          "Engine",
          engine.connected
            ? `${engine.name ?? "engine"} ${engine.version ?? ""} (API ${engine.api_version ?? "?"})`
            : colours.red(`not reachable: ${engine.message ?? "no answer"}`),
        ],
        ["Ingress", colourComponent(describeIngress(info.ingress), colours)],
        ...apiUrlField(info.ingress, colours),
        ["Host", `${info.hostname}, ${info.os} ${info.arch}, ${info.cpus} CPUs`],
        ["Memory", `${formatBytes(memory.free_bytes)} free of ${formatBytes(memory.total_bytes)}`],
        ["Disk", `${formatBytes(disk.free_bytes)} free of ${formatBytes(disk.total_bytes)}`],
        ["Apps", `${counts.apps}, of which ${counts.apps_ready} ready`],
        [
          "Models",
          `${counts.models}, of which ${counts.models_ready} ready and ${counts.models_running} running`,
        ],
        ["Assistant", colourComponent(describeAssistant(info.assistant), colours)],
        ...companionField(info.companion, colours),
        ["Secrets", String(counts.secrets)],
        [
          "Specs",
          `${specs.folder} ${getStatusColour(colours, specs.state)(specs.state)}, ${specs.files.length} ${specs.files.length === 1 ? "file" : "files"}${invalid === 0 ? "" : colours.red(`, ${invalid} with problems`)}`,
        ],
        ["Instance", info.instance_id],
      ]),
    );
    const otherWriter = describeOtherWriter(engine);
    const issues = [
      ...(otherWriter === null ? [] : [otherWriter]),
      ...apps.filter(needsAttention).map((app) => `app/${app.name} ${app.status}: ${app.message}`),
      ...models
        .filter(({ status }) => status === "failed")
        .map((model) => `model/${model.name} failed: ${model.error ?? model.message}`),
      ...(invalid === 0 ? [] : ["files in the specs folder have problems: `berth specs`"]),
      ...(specs.pending_prune.length === 0
        ? []
        : [`deletions to confirm: ${specs.pending_prune.length}, see \`berth prune\``]),
    ];
    if (issues.length > 0)
      await cli.print(
        `\n${colours.bold("Needs attention:")}\n${issues.map((line) => `  ${line}`).join("\n")}`,
      );
  });
}

function needsAttention(app: AppItem): boolean {
  return app.status === "failed" || app.status === "degraded";
}
