import { isAbort } from "../../base/errors.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import type { OutputFormat } from "../options.ts";
import { printDocument } from "../output/print.ts";
import { type FollowOptions, followModel } from "./follow.ts";

/** What shells say of a program that Ctrl-C has ended: 128 and the number of SIGINT. */
const INTERRUPTED = 130;

export interface FinishFlags {
  readonly wait?: boolean;
  readonly timeout?: number;
  readonly quiet?: boolean;
  readonly output?: OutputFormat;
}

/** The short form of the result with -o; undefined where it is to be told in words. */
export function isDocument(format: OutputFormat | undefined): format is "json" | "yaml" {
  return format === "json" || format === "yaml";
}

/**
 * Follows a model to where it is to be, and returns it; a Ctrl-C ends the following and nothing else, and
 * returns undefined.
 */
export async function untilThere(
  cli: Cli,
  client: Client,
  name: string,
  until: FollowOptions["until"],
  flags: FinishFlags,
): Promise<ModelDetails | undefined> {
  const leaving = new AbortController();
  const stay = cli.io.onInterrupt(() => leaving.abort());
  try {
    return await followModel(cli, client, name, {
      until,
      timeoutMs: flags.timeout ?? Number.POSITIVE_INFINITY,
      isQuiet: flags.quiet === true,
      signal: leaving.signal,
    });
  } catch (error) {
    if (!leaving.signal.aborted || !isAbort(error)) throw error;
    cli.note(
      `the server goes on with it: \`berth models ls\` shows how far it is, \`berth models rm ${name}\` ends it`,
    );
    cli.exitCode = INTERRUPTED;
    return undefined;
  } finally {
    stay();
  }
}

/** The result in the form that -o asks for; true where that is all there is to say. */
export async function printShort(
  cli: Cli,
  model: ModelDetails,
  format: OutputFormat | undefined,
): Promise<boolean> {
  if (isDocument(format)) await printDocument(cli, model, format);
  else if (format === "name") await cli.print(`model/${model.name}`);
  else return false;
  return true;
}
