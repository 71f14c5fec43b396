import { getErrorMessage } from "../../base/errors.ts";
import { waitForAbort } from "../../base/race-with-abort.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppDetails } from "../../resources/wire/apps.ts";
import type { BuildView } from "../../resources/wire/builds.ts";
import type { Cli } from "../cli.ts";
import { formatDurationMs } from "../format-time.ts";
import { waitForAppReady } from "./wait-for-app-ready.ts";

/** The time for the last lines of the log to arrive after the app is ready or has failed. */
const LAST_LINES_MS = 2000;

export interface FollowDeployOptions {
  readonly name: string;
  readonly generation: number;
  /** The number of the newest build before the deploy; 0 if there was none. */
  readonly lastBuild: number;
  readonly timeoutMs: number;
  readonly isQuiet: boolean;
  /** Aborts when the user stops following. */
  readonly signal: AbortSignal;
}

/**
 * Shows the log of the build, then the rollout, until the app is Ready. Throws the errors of `waitForAppReady`. If the
 * build has failed, the hint of the error names the log of the build.
 */
export async function followDeploy(
  cli: Cli,
  client: Client,
  options: FollowDeployOptions,
): Promise<AppDetails> {
  const { name, generation, timeoutMs, isQuiet, signal } = options;
  const logAbort = new AbortController();
  signal.addEventListener("abort", () => logAbort.abort(), { once: true });
  const log = isQuiet ? Promise.resolve() : showBuilds(cli, client, options, logAbort.signal);
  try {
    return await waitForAppReady(cli, client, name, {
      timeoutMs,
      generation,
      signal,
      // While a build runs, its log is shown instead of the app's changes of state.
      silentWhile: isQuiet ? "always" : "building",
      onFailure: () => findBuildHint(client, options),
    });
  } finally {
    const cancelTimer = setTimeout(() => logAbort.abort(), LAST_LINES_MS);
    await Promise.race([log, waitForAbort(logAbort.signal)]);
    clearTimeout(cancelTimer);
    logAbort.abort();
    await log;
  }
}

/**
 * Waits for a build that is newer than `lastBuild`, the newest build before the deploy, and shows its log until it
 * ends.
 */
async function showBuilds(
  cli: Cli,
  client: Client,
  { name, lastBuild }: FollowDeployOptions,
  signal: AbortSignal,
): Promise<void> {
  try {
    const changes = client.events.watch({ kind: "App", name, signal });
    let next = requestNext(changes);
    for (;;) {
      const { builds } = await client.builds.list(name, { limit: 1, signal });
      const [build] = builds;
      if (build !== undefined && build.id > lastBuild)
        return await showLog(cli, client, build, signal);
      if ((await next).done === true) return;
      next = requestNext(changes);
    }
  } catch (error) {
    // A failure here only loses the rest of the log; the wait for the app reports whether the deploy has failed.
    if (!signal.aborted)
      cli.note(cli.errorColours.dim(`the rest of the log is missing: ${getErrorMessage(error)}`));
  }
}

/**
 * Requests the next change before the caller reads the builds, so that no change is missed. The caller may drop the
 * promise: its rejection is handled here.
 */
function requestNext<T>(changes: AsyncIterator<T>): Promise<IteratorResult<T>> {
  const next = changes.next();
  next.catch(() => {});
  return next;
}

async function showLog(
  cli: Cli,
  client: Client,
  build: BuildView,
  signal: AbortSignal,
): Promise<void> {
  const { dim } = cli.errorColours;
  const prefix = dim(`#${build.id}`);
  cli.note(`${prefix} build ${build.id} of ${build.source} at ${build.revision.slice(0, 12)}`);
  const log = client.builds.followLog(build.app, build.id, signal);
  for (;;) {
    const line = await log.next();
    if (line.done !== true) {
      cli.note(`${prefix} ${line.value}`);
      continue;
    }
    const ended = line.value;
    if (ended !== undefined) cli.note(`${prefix} ${ended.state}${durationText(ended)}`);
    return;
  }
}

function durationText({ started_at, finished_at }: BuildView): string {
  if (started_at === null || finished_at === null) return "";
  return ` after ${formatDurationMs(Date.parse(finished_at) - Date.parse(started_at))}`;
}

async function findBuildHint(
  client: Client,
  options: FollowDeployOptions,
): Promise<string | undefined> {
  const { builds } = await client.builds.list(options.name, { limit: 1 });
  const [build] = builds;
  if (build === undefined || build.id <= options.lastBuild || build.state === "succeeded")
    return undefined;
  return `\`berth builds ${options.name} ${build.id} --log\` shows the whole log; fix the source and deploy again`;
}
