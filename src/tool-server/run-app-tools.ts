import type { AppWriteResult } from "../client/rest/app-calls.ts";
import type { AppDetails } from "../resources/wire/apps.ts";
import { createChangeOutput, waitForProgress } from "./app-change.ts";
import type { ToolArguments, ToolContext, ToolOutput } from "./tool-context.ts";

export function startAppTool(args: ToolArguments, context: ToolContext): Promise<ToolOutput> {
  const { apps } = context.client;
  return runAction(args, context, "started", (name) => apps.start(name, context));
}

export function stopAppTool(args: ToolArguments, context: ToolContext): Promise<ToolOutput> {
  const { apps } = context.client;
  return runAction(args, context, "stopped", (name) => apps.stop(name, context));
}

export function restartAppTool(args: ToolArguments, context: ToolContext): Promise<ToolOutput> {
  const { apps } = context.client;
  return runAction(args, context, "restarted", (name) => apps.restart(name, context));
}

export function setAppRunningTool(args: ToolArguments, context: ToolContext): Promise<ToolOutput> {
  return args["running"] === true ? startAppTool(args, context) : stopAppTool(args, context);
}

async function runAction(
  args: ToolArguments,
  context: ToolContext,
  action: string,
  write: (name: string) => Promise<AppWriteResult>,
): Promise<ToolOutput> {
  const name = String(args["name"]);
  const before = await context.client.apps.get(name, context.signal);
  const app = requireWrittenApp(await write(name));
  const progress = await waitForProgress(app, context);
  return createChangeOutput(name, action, progress, {
    was_running: before.spec.running !== false,
    changed: app.generation !== before.generation,
  });
}

/**
 * Returns the app from the result of a write. The tools of this file never make a dry run, so the result always
 * contains the app.
 */
export function requireWrittenApp(write: AppWriteResult): AppDetails {
  if (write.dryRun) throw new Error("a write was a dry run");
  return write.app;
}
