import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples, addJsonOptions, isJsonOutput, type JsonFlags } from "../command-options.ts";
import { addToolsLint } from "./tools-lint.ts";
import { addToolsServe } from "./tools-serve.ts";

interface ListFlags extends JsonFlags {
  readonly find?: string;
  readonly state?: boolean;
}

export function addTools(program: Command, cli: Cli): void {
  const tools = addExamples(
    program
      .command("tools")
      .helpCommand(false)
      .summary("list and check the tools of apps")
      .description(
        "Manages the tools that apps declare to your companion (`berth assistant --user`). A read tool runs at once, a write or destructive tool only after your confirmation. `berth call` calls a tool.",
      ),
    [
      ["berth tools", "list every tool of every app"],
      ['berth tools list --find "write something down"', "list tools for a purpose, best first"],
      ["berth tools dev.berth.apps", "list the tools of one app"],
    ],
  );
  addList(tools, cli);
  addApprove(tools, cli);
  addToolsLint(tools, cli);
  addToolsServe(tools, cli);
}

function addList(tools: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      tools
        .command("list", { isDefault: true })
        .alias("ls")
        .summary("list tools")
        .description(
          "Lists tools; with the id of an app, lists its tools with their details. TIER: read changes nothing, write makes changes that can be reversed, destructive makes changes that cannot. Tools that your settings disable are marked, and --find leaves them out. UNDO: `berth undo` can undo a call of the tool.",
        )
        .argument("[app-id]", "list only the tools of this app")
        .option("--find <words>", "list tools for this purpose, best first")
        .option("--state", "show by what --find ranks tools"),
    ),
    [
      ["berth tools list --json", "list the tools as JSON"],
      ['berth tools list --find "what is on my list"', "list tools for a purpose, best first"],
      ["berth tools list --state", "show the embedding model and the weight of its ranking"],
    ],
  ).action(async (appId: string | undefined, flags: ListFlags) => {
    if (flags.state === true && (appId !== undefined || flags.find !== undefined))
      throw new UsageError(
        "--state cannot be combined with an app or --find",
        "berth tools list --state",
      );
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseDiscoverReport, parseToolRows } = await import("../../client/bus/agent-wire.ts");
    const { getField } = await import("../../client/bus/json-fields.ts");
    const { sanitizeJson } = await import("../companion/untrusted-text.ts");
    const { showDiscoverState, showTools } = await import("../companion/show-tools.ts");
    await withCompanion(cli, async ({ agent }, signal) => {
      if (flags.state === true) {
        const state = await agent.discoverState(signal);
        if (isJsonOutput(flags)) return cli.print(sanitizeJson(state));
        return cli.print(showDiscoverState(parseDiscoverReport(state)));
      }
      const all =
        flags.find === undefined
          ? await agent.listTools(signal)
          : await agent.discover(flags.find, signal);
      const document =
        appId === undefined || !Array.isArray(all)
          ? all
          : all.filter((tool: unknown) => getField(tool, "app_id") === appId);
      const rows = parseToolRows(document);
      if (isJsonOutput(flags)) return cli.print(sanitizeJson(document));
      if (rows.length === 0) return cli.note(formatNoTools(appId, flags.find));
      await cli.print(showTools(rows, appId !== undefined, cli.colours, cli.io.columns));
    });
  });
}

function addApprove(tools: Command, cli: Cli): void {
  addExamples(
    tools
      .command("approve")
      .summary("approve a tool that has changed")
      .description(
        "Approves the present definition of a tool if it differs from the app's manifest, or its tier if the manifest has lowered it. Until then the companion refuses to call the tool; the error of `berth call` contains the digest.",
      )
      .argument("<app-id>", "id of an app")
      .argument("<tool>", "name of a tool")
      .argument("<digest>", "digest of the approved definition: 64 hex digits"),
    [["berth tools approve org.example.Notes create_note DIGEST", "approve it after an update"]],
  ).action(async (appId: string, tool: string, digest: string) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ agent }, signal) => {
      await agent.approveTool(appId, tool, digest, signal);
      await cli.print(`the present definition of ${appId} ${tool} is approved`);
    });
  });
}

function formatNoTools(appId: string | undefined, query: string | undefined): string {
  if (query !== undefined) return "no tool found; `berth tools` lists all tools";
  return appId === undefined
    ? "no app declares tools"
    : `no app ${appId} declares tools; \`berth tools\` lists the apps that declare tools`;
}
