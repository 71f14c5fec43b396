import { ApiError } from "../../client/rest/api-error.ts";
import type { AppWrite } from "../../client/rest/app-calls.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppDetails } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { printDocument } from "../output/print.ts";
import { reportWrite } from "./app-write.ts";
import type { DeployFlags } from "./flags.ts";
import { followDeploy } from "./follow.ts";

/** What shells say of a program that Ctrl-C has ended: 128 and the number of SIGINT. */
const INTERRUPTED = 130;

/** The app as it is now, and its newest build; both unknown where there is no such app yet. */
export interface Before {
  readonly app: AppDetails | undefined;
  readonly lastBuild: number;
}

export async function lookBefore(client: Client, name: string): Promise<Before> {
  try {
    const app = await client.apps.get(name);
    return { app, lastBuild: app.build?.id ?? 0 };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { app: undefined, lastBuild: 0 };
    throw error;
  }
}

/**
 * Follows a deploy to its end unless it is not to be waited for, and tells where the app is. A Ctrl-C
 * ends the following, and not the deploy.
 */
export async function finishDeploy(
  cli: Cli,
  client: Client,
  name: string,
  write: AppWrite,
  before: Before,
  flags: DeployFlags,
): Promise<void> {
  if (write.dryRun || flags.wait === false) {
    const words = { done: "is deployed", already: "is as it should be already" };
    return reportWrite(cli, client, name, write, words, { ...flags, wait: false });
  }
  const leaving = new AbortController();
  const stay = cli.io.onInterrupt(() => leaving.abort());
  let ready: AppDetails;
  try {
    ready = await followDeploy(cli, client, {
      name,
      generation: write.app.generation,
      lastBuild: before.lastBuild,
      timeoutMs: flags.timeout,
      isQuiet: flags.quiet === true,
      signal: leaving.signal,
    });
  } catch (error) {
    if (!leaving.signal.aborted) throw error;
    cli.note(
      `the deploy goes on: \`berth builds ${name} -f\` follows it, \`berth builds ${name} --cancel\` ends its build`,
    );
    cli.exitCode = INTERRUPTED;
    return;
  } finally {
    stay();
  }
  if (flags.output === "json" || flags.output === "yaml")
    return printDocument(cli, ready, flags.output);
  if (flags.output === "name") return cli.print(`app/${name}`);
  const place = ready.url === null || ready.status !== "running" ? "" : ` at ${ready.url}`;
  await cli.print(`app/${name} is ${cli.colours.green(ready.status)}${place}`);
}
