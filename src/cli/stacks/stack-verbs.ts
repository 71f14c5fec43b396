import type { WriteOptions } from "../../client/rest/app-calls.ts";
import type { Client } from "../../client/rest/client.ts";
import type { StackWriteResult } from "../../client/rest/stack-calls.ts";
import type { Cli } from "../cli.ts";
import { declinedError, timeoutError, UsageError } from "../cli-errors.ts";
import { isDocumentFormat, type OutputFormat, type WaitFlags } from "../command-options.ts";
import { formatDurationMs } from "../format-time.ts";
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

/** Starts, stops or restarts all apps of each stack, and prints which of them changed. */
export async function changeStacks(
  cli: Cli,
  names: readonly string[],
  verb: "start" | "stop" | "restart",
  flags: StackVerbFlags,
): Promise<void> {
  const client = await cli.connect();
  for (const name of names)
    await report(cli, name, flags, verb, await client.stacks.act(name, verb, getOptions(flags)));
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
    await report(cli, name, flags, "delete", write);
    const { secrets } = write.report.stack;
    if (flags.volumes !== true && flags.dryRun !== true && secrets.length > 0)
      cli.note(
        cli.errorColours.dim(
          `stays: named volumes, and the secrets ${secrets.join(", ")}; a new stack ${name} finds them again`,
        ),
      );
  }
}

function getOptions(flags: StackVerbFlags): WriteOptions {
  return {
    dryRun: flags.dryRun === true,
    force: flags.force === true,
    wait: flags.wait === true,
    ...(flags.wait === true ? { timeout: `${flags.timeout}ms` } : {}),
  };
}

async function report(
  cli: Cli,
  name: string,
  flags: StackVerbFlags,
  verb: string,
  { report: answer, timedOut }: StackWriteResult,
): Promise<void> {
  if (isDocumentFormat(flags.output)) await printDocument(cli, answer, flags.output);
  else if (flags.output === "name") await cli.print(answer.changed.join("\n"));
  else {
    const outcome = answer.dry_run ? `would ${verb}` : verb;
    const lines = answer.changed.map((reference) => `${reference}: ${outcome}`);
    await cli.print(lines.length > 0 ? lines.join("\n") : `stack/${name}: nothing to ${verb}`);
  }
  if (timedOut)
    throw timeoutError(
      `stack "${name}" is not as requested after ${formatDurationMs(flags.timeout)}: ${answer.stack.message}`,
      `\`berth describe stack/${name}\`, or wait longer: --timeout 4m`,
    );
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
  const data = flags.volumes === true ? ", all data in their volumes, and their secrets" : "";
  if (!(await confirm(cli, `Delete ${apps}${data}?`))) throw declinedError("nothing was deleted");
}
