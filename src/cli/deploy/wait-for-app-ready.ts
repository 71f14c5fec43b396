import { BerthError } from "../../base/errors.ts";
import { ApiError } from "../../client/rest/api-error.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppDetails } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { timeoutError } from "../cli-errors.ts";
import { formatDurationMs } from "../format-time.ts";
import { ProgressLines } from "../output/progress-lines.ts";
import { EngineOutageNotes } from "./engine-outage-notes.ts";

/**
 * Waits until the app is Ready in this generation. On a terminal it shows a progress bar for a pull, and each change of
 * the app's message, also for an outage of the engine. Without a terminal it shows only such outages. Throws BerthError
 * `wrong_state` with the reason if the app has failed, and `timeout` after the time limit.
 */
export async function waitForAppReady(
  cli: Cli,
  client: Client,
  name: string,
  options: {
    readonly timeoutMs: number;
    readonly generation?: number;
    readonly signal?: AbortSignal;
    /**
     * `building` hides the app's messages while the app is building, and `always` hides all messages, because the
     * caller shows other progress. Default: all messages are shown.
     */
    readonly silentWhile?: "building" | "always";
    /** Called if the app failed; may resolve to a hint that replaces the usual one. */
    readonly onFailure?: () => Promise<string | undefined>;
  },
): Promise<AppDetails> {
  const { silentWhile } = options;
  const notes = new EngineOutageNotes(cli, client, name);
  if (silentWhile !== "always") await notes.update();
  const abort = new AbortController();
  const progress =
    silentWhile === "always"
      ? Promise.resolve()
      : cli.io.errorIsTerminal
        ? showProgress(cli, client, name, silentWhile, abort.signal)
        : notes.follow(abort.signal);
  try {
    const { app, timedOut: isLate } = await client.apps.waitReady(name, options);
    if (!isLate) return app;
    throw timeoutError(
      `app "${name}" is not ready after ${formatDurationMs(options.timeoutMs)}: ${app.status}, ${app.message}`,
      `\`berth describe ${name}\`, or wait longer: --timeout 10m`,
    );
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    throw appFailedError(name, error, await options.onFailure?.(), await findServing(client, name));
  } finally {
    abort.abort();
    await progress;
  }
}

/** Waits until the app is deleted. Throws BerthError `timeout` if the app still exists after `timeoutMs`. */
export async function waitForAppDeleted(
  cli: Cli,
  client: Client,
  name: string,
  timeoutMs: number,
): Promise<void> {
  const notes = new EngineOutageNotes(cli, client, name);
  await notes.update();
  const abort = new AbortController();
  const following = notes.follow(abort.signal);
  try {
    if (await client.apps.waitDeleted(name, { timeoutMs })) return;
  } finally {
    abort.abort();
    await following;
  }
  throw timeoutError(
    `app "${name}" is still being deleted after ${formatDurationMs(timeoutMs)}`,
    `\`berth describe ${name}\` shows what blocks the deletion`,
  );
}

async function showProgress(
  cli: Cli,
  client: Client,
  name: string,
  silentWhile: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  let last = "";
  const lines = new ProgressLines({
    write: (text) => cli.io.writeError(text),
    dim: cli.errorColours.dim,
    columns: () => cli.io.errorColumns,
  });
  const showChange = async () => {
    const app = await client.apps.get(name, signal);
    const text = `${app.status}: ${app.message}`;
    const ready = app.conditions.find(({ type }) => type === "Ready");
    // A failure is not shown here, because `waitForAppReady` throws it.
    if (app.status === silentWhile || app.status === "failed" || ready?.reason === "Reverted")
      return;
    if (text !== last && !signal.aborted) lines.show(`${name} ${text}`);
    last = text;
  };
  try {
    for await (const change of client.events.watch({ kind: "App", name, signal })) {
      if (change.reset || change.type === "status") await showChange();
    }
  } catch {
    // `waitForAppReady` reports failures of the app; this function only displays progress.
  } finally {
    lines.end();
  }
}

/**
 * Describes the revision that still serves requests although the newest one has failed; undefined if no revision serves
 * requests.
 */
async function findServing(client: Client, name: string): Promise<string | undefined> {
  try {
    const { url, containers, revisions } = await client.apps.get(name);
    const serves = containers.some(({ role, healthy }) => role === "active" && healthy === true);
    if (!serves || revisions.applied === null) return undefined;
    return `revision ${revisions.applied} still serves${url === null ? "" : ` at ${url}`}`;
  } catch {
    return undefined;
  }
}

/**
 * Creates the error for a failed app. Replaces the API's hint, which names a route, with commands of the command line.
 */
function appFailedError(
  name: string,
  error: ApiError,
  hint: string | undefined,
  serving: string | undefined,
): BerthError {
  const reason = error.message.replace(/\.? See GET \S+ and its logs\.?$/, "");
  const message = serving === undefined ? reason : `${reason}; ${serving}`;
  return new BerthError("wrong_state", message, {
    hint: hint ?? `\`berth describe ${name}\` and \`berth logs ${name}\``,
    cause: error,
  });
}
