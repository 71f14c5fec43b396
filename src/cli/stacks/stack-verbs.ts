import type { WriteOptions } from "../../client/rest/app-calls.ts";
import type { Client } from "../../client/rest/client.ts";
import type { StackWriteView } from "../../resources/wire/stacks.ts";
import type { Cli } from "../cli.ts";
import { declinedError, UsageError } from "../cli-errors.ts";
import { isDocumentFormat, type OutputFormat, type WaitFlags } from "../command-options.ts";
import { waitForAppDeleted, waitForAppReady } from "../deploy/wait-for-app-ready.ts";
import { printDocument } from "../output/print.ts";
import { canPrompt, confirm } from "../prompt.ts";

export interface StackVerbFlags extends WaitFlags {
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly output?: OutputFormat;
}

export interface StackDeleteFlags extends StackVerbFlags {
  readonly volumes?: boolean;
  readonly yes?: boolean;
}

/** The state of an app that a verb has changed: before the end of the change, and after a successful --wait. */
const outcomes = {
  start: { now: "is starting", waited: "has started" },
  stop: { now: "is stopping", waited: "has stopped" },
  restart: { now: "is restarting", waited: "has restarted" },
  delete: { now: "is being deleted", waited: "is gone" },
} as const;

/** Starts, stops or restarts all apps of each stack, and prints which of them changed. */
export async function changeStacks(
  cli: Cli,
  names: readonly string[],
  verb: "start" | "stop" | "restart",
  flags: StackVerbFlags,
): Promise<void> {
  const client = await cli.connect();
  for (const name of names)
    await report(cli, client, flags, verb, await client.stacks.act(name, verb, getOptions(flags)));
}

/** Deletes all apps of each stack. At a terminal it asks first. */
export async function deleteStacks(
  cli: Cli,
  names: readonly string[],
  flags: StackDeleteFlags,
): Promise<void> {
  const client = await cli.connect();
  if (flags.dryRun !== true) await confirmDeletion(cli, client, names, flags);
  for (const name of names) {
    const options = { ...getOptions(flags), deleteVolumes: flags.volumes === true };
    const write = await client.stacks.delete(name, options);
    await report(cli, client, flags, "delete", write);
    const { secrets } = write.stack;
    if (flags.volumes !== true && flags.dryRun !== true && secrets.length > 0)
      cli.note(
        cli.errorColours.dim(
          `stays: named volumes, folders, and the secrets ${secrets.join(", ")}; a new stack ${name} finds them again`,
        ),
      );
  }
}

function getOptions(flags: StackVerbFlags): WriteOptions {
  return {
    dryRun: flags.dryRun === true,
    force: flags.force === true,
  };
}

async function report(
  cli: Cli,
  client: Client,
  flags: StackVerbFlags,
  verb: keyof typeof outcomes,
  answer: StackWriteView,
): Promise<void> {
  const waits = flags.wait === true && !answer.dry_run;
  if (waits) await waitForApps(cli, client, flags.timeout, verb, answer);
  const { name } = answer.stack;
  if (isDocumentFormat(flags.output)) await printDocument(cli, answer, flags.output);
  else if (flags.output === "name") await cli.print(answer.changed.join("\n"));
  else {
    const { now, waited } = outcomes[verb];
    const done = waits ? waited : now;
    const lines = answer.changed.map((reference) =>
      answer.dry_run ? `${reference}: would ${verb}` : `${reference} ${done}`,
    );
    await cli.print(lines.length > 0 ? lines.join("\n") : `stack/${name}: nothing to ${verb}`);
  }
}

/** Waits until each app that the verb has changed is as requested. Throws BerthError `timeout` after the time limit. */
async function waitForApps(
  cli: Cli,
  client: Client,
  timeoutMs: number,
  verb: keyof typeof outcomes,
  { changed, stack }: StackWriteView,
): Promise<void> {
  const deadlineMs = Date.now() + timeoutMs;
  for (const reference of changed) {
    const [kind, name = ""] = reference.split("/");
    if (kind !== "app") continue;
    const leftMs = Math.max(0, deadlineMs - Date.now());
    if (verb === "delete") await waitForAppDeleted(cli, client, name, leftMs);
    else {
      const generation = stack.members.find((member) => member.name === name)?.generation;
      await waitForAppReady(cli, client, name, {
        timeoutMs: leftMs,
        ...(generation !== undefined && { generation }),
      });
    }
  }
}

async function confirmDeletion(
  cli: Cli,
  client: Client,
  names: readonly string[],
  flags: StackDeleteFlags,
): Promise<void> {
  if (flags.yes === true) return;
  if (!canPrompt(cli)) {
    if (flags.volumes !== true) return;
    throw new UsageError(
      "--volumes deletes data for good, and there is no terminal on which to confirm it",
      "add --yes",
    );
  }
  const stacks = await Promise.all(names.map((name) => client.stacks.get(name)));
  const apps = stacks.flatMap(({ members }) => members.map((app) => `app/${app.name}`)).join(", ");
  const data =
    flags.volumes === true ? ", all data in their volumes and folders, and their secrets" : "";
  if (!(await confirm(cli, `Delete ${apps}${data}?`))) throw declinedError("nothing was deleted");
}
