import { isAbortError } from "../../base/errors.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../cli-errors.ts";
import { isDocumentFormat, type OutputFormat } from "../command-options.ts";
import { printDocument } from "../output/print.ts";
import { type FollowOptions, followModel } from "./follow-model.ts";

export interface FinishFlags {
  readonly wait?: boolean;
  readonly timeout?: number;
  readonly quiet?: boolean;
  readonly output?: OutputFormat;
}

/**
 * Follows a model until it is on disk or in memory, and resolves to the model. Ctrl-C only stops the display; the
 * promise then resolves to undefined.
 */
export async function waitForModelState(
  cli: Cli,
  client: Client,
  name: string,
  until: FollowOptions["until"],
  flags: FinishFlags,
): Promise<ModelDetails | undefined> {
  const interruption = new AbortController();
  const removeInterruptListener = cli.io.onInterrupt(() => interruption.abort());
  try {
    return await followModel(cli, client, name, {
      until,
      timeoutMs: flags.timeout ?? Number.POSITIVE_INFINITY,
      isQuiet: flags.quiet === true,
      signal: interruption.signal,
    });
  } catch (error) {
    if (!interruption.signal.aborted || !isAbortError(error)) throw error;
    cli.note(
      `the server continues: \`berth models ls\` shows the progress, \`berth models rm ${name}\` cancels it`,
    );
    cli.exitCode = exitCodes.interrupted;
    return undefined;
  } finally {
    removeInterruptListener();
  }
}

/** Prints the model in the format of -o; resolves to false, without output, for the default format. */
export async function printFormatted(
  cli: Cli,
  model: ModelDetails,
  format: OutputFormat | undefined,
): Promise<boolean> {
  if (isDocumentFormat(format)) await printDocument(cli, model, format);
  else if (format === "name") await cli.print(`model/${model.name}`);
  else return false;
  return true;
}
