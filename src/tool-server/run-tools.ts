import type { AppWrite } from "../client/rest/app-calls.ts";
import type { AppDetails } from "../resources/wire/apps.ts";
import { changeAnswer, progressOf } from "./app-change.ts";
import type { ToolAnswer, ToolArguments, ToolContext } from "./tool-answer.ts";

export function startApp(args: ToolArguments, context: ToolContext): Promise<ToolAnswer> {
  const { apps } = context.client;
  return run(args, context, "started", (name) => apps.start(name, context));
}

export function stopApp(args: ToolArguments, context: ToolContext): Promise<ToolAnswer> {
  const { apps } = context.client;
  return run(args, context, "stopped", (name) => apps.stop(name, context));
}

export function restartApp(args: ToolArguments, context: ToolContext): Promise<ToolAnswer> {
  const { apps } = context.client;
  return run(args, context, "restarted", (name) => apps.restart(name, context));
}

export function setAppRunning(args: ToolArguments, context: ToolContext): Promise<ToolAnswer> {
  return args["running"] === true ? startApp(args, context) : stopApp(args, context);
}

async function run(
  args: ToolArguments,
  context: ToolContext,
  did: string,
  write: (name: string) => Promise<AppWrite>,
): Promise<ToolAnswer> {
  const name = String(args["name"]);
  const before = await context.client.apps.get(name, context.signal);
  const app = written(await write(name));
  const progress = await progressOf(app, context);
  return changeAnswer(name, did, progress, {
    was_running: before.spec.running !== false,
    changed: app.generation !== before.generation,
  });
}

/** The tools never ask for a dry run. */
export function written(write: AppWrite): AppDetails {
  if (write.dryRun) throw new Error("a write was a dry run");
  return write.app;
}
