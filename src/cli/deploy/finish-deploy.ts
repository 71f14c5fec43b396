import { ApiError } from "../../client/rest/api-error.ts";
import type { AppWriteResult } from "../../client/rest/app-calls.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppDetails } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../cli-errors.ts";
import type { DeployFlags } from "./deploy-flags.ts";
import { followDeploy } from "./follow-deploy.ts";
import { reportAppWrite } from "./report-app-write.ts";
import { reportReadyApp } from "./report-ready-app.ts";

/** The app before the deploy, and the number of its newest build, which is 0 for an app without builds. */
export interface DeployBaseline {
  readonly app: AppDetails | undefined;
  readonly lastBuild: number;
}

export async function readBaseline(client: Client, name: string): Promise<DeployBaseline> {
  try {
    const app = await client.apps.get(name);
    return { app, lastBuild: app.build?.id ?? 0 };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { app: undefined, lastBuild: 0 };
    throw error;
  }
}

/**
 * Follows a deploy to its end, unless --no-wait is given, and prints the address of the app. Ctrl-C stops the
 * display, not the deploy.
 */
export async function finishDeploy(
  cli: Cli,
  client: Client,
  name: string,
  write: AppWriteResult,
  baseline: DeployBaseline,
  flags: Pick<DeployFlags, "wait" | "timeout" | "quiet" | "output">,
  phrases?: { readonly done: string; readonly already: string },
): Promise<void> {
  const { done, already } = phrases ?? {
    done: "is being deployed",
    already: "is already up to date",
  };
  if (write.dryRun || flags.wait === false)
    return reportAppWrite(cli, client, name, write, { done, already }, { ...flags, wait: false });
  // Without `phrases`, no note announces the deploy: the caller builds a source, and the log of the build already shows
  // that the deploy has begun.
  if (phrases && flags.output === undefined)
    cli.note(`app/${name} ${write.accepted ? done : already}`);
  const interruption = new AbortController();
  const removeInterruptListener = cli.io.onInterrupt(() => interruption.abort());
  let ready: AppDetails;
  try {
    ready = await followDeploy(cli, client, {
      name,
      generation: write.app.generation,
      lastBuild: baseline.lastBuild,
      timeoutMs: flags.timeout,
      isQuiet: flags.quiet === true,
      signal: interruption.signal,
    });
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    cli.note(
      `the deploy continues: \`berth builds ${name} -f\` follows it, \`berth builds ${name} --cancel\` cancels its build`,
    );
    cli.exitCode = exitCodes.interrupted;
    return;
  } finally {
    removeInterruptListener();
  }
  await reportReadyApp(cli, ready, flags.output);
}
