import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-options.ts";
import { addToolsLint } from "./tools-lint.ts";
import { addToolsServe } from "./tools-serve.ts";

interface ListFlags {
  readonly find?: string;
  readonly json?: boolean;
}

export function addTools(program: Command, cli: Cli): void {
  const tools = addExamples(
    program
      .command("tools")
      .helpCommand(false)
      .summary("list what apps of this session can do for you")
      .description(
        "Tools that apps declare to your companion (`berth assistant --user`), and what it takes to call one: read tools run at once when you ask for them, write and destructive ones ask you first. `berth call` calls one.",
      ),
    [
      ["berth tools", "every tool of every app"],
      ['berth tools list --find "write something down"', "those that a wish is about, best first"],
      ["berth tools dev.berth.apps", "those of one app"],
    ],
  );
  addList(tools, cli);
  addApprove(tools, cli);
  addToolsLint(tools, cli);
  addToolsServe(tools, cli);
}

function addList(tools: Command, cli: Cli): void {
  addExamples(
    tools
      .command("list", { isDefault: true })
      .alias("ls")
      .summary("list tools")
      .description(
        "Lists tools; with the id of an app, all that it says about them. TIER: read looks, write changes what can be changed back, destructive does not. UNDO: `berth undo` takes a call of it back.",
      )
      .argument("[app-id]", "only those of this app")
      .option("--find <words>", "those that a wish in plain words is about, best first")
      .option("--json", "print what the companion says, as JSON"),
    [
      ["berth tools list --json", "for scripts"],
      ['berth tools list --find "what is on my list"', "the best one first"],
    ],
  ).action(async (appId: string | undefined, flags: ListFlags) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseToolRows } = await import("../../client/bus/agent-wire.ts");
    const { getField } = await import("../../client/bus/json-fields.ts");
    const { sanitizeJson } = await import("../companion/untrusted-text.ts");
    await withCompanion(cli, async ({ agent }, signal) => {
      const all =
        flags.find === undefined
          ? await agent.listTools(signal)
          : await agent.discover(flags.find, signal);
      const document =
        appId === undefined || !Array.isArray(all)
          ? all
          : all.filter((tool: unknown) => getField(tool, "app_id") === appId);
      const rows = parseToolRows(document);
      if (flags.json === true) return cli.print(sanitizeJson(document));
      if (rows.length === 0) return cli.note(formatNoTools(appId, flags.find));
      const { showTools } = await import("../companion/show-tools.ts");
      await cli.print(showTools(rows, appId !== undefined, cli.colours, cli.io.columns));
    });
  });
}

function addApprove(tools: Command, cli: Cli): void {
  addExamples(
    tools
      .command("approve")
      .summary("accept that an app's tool is not what its manifest says any more")
      .description(
        "A tool that is not what its app's manifest declares is refused. This accepts what it is now; `berth call` tells the digest where it is refused.",
      )
      .argument("<app-id>", "id of an app")
      .argument("<tool>", "name of a tool")
      .argument("<digest>", "what exactly is accepted: 64 hex digits"),
    [["berth tools approve org.example.Notes create_note DIGEST", "after an update of the app"]],
  ).action(async (appId: string, tool: string, digest: string) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    await withCompanion(cli, async ({ agent }, signal) => {
      await agent.approveTool(appId, tool, digest, signal);
      await cli.print(`${appId} ${tool} is accepted as it is now`);
    });
  });
}

function formatNoTools(appId: string | undefined, query: string | undefined): string {
  if (query !== undefined) return "no tool is about that; `berth tools` lists all of them";
  return appId === undefined
    ? "no app declares tools"
    : `no app ${appId} declares tools; \`berth tools\` lists those that do`;
}
