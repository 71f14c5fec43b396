import { BerthError } from "../../base/errors.ts";
import { ApiError } from "../../client/rest/api-error.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppDetails } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { timeoutError } from "../cli-errors.ts";
import { formatDurationMs } from "../format-time.ts";
import { ProgressLines } from "../output/progress-lines.ts";

/**
 * Waits until the app is Ready in this generation. On a terminal it shows each change of the app's message, and a bar
 * for a pull. Throws BerthError `wrong_state` with the reason if the app has failed, and `timeout` if the time is over.
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
     * `building` hides the changes while the app is building, and `always` hides all of them, because the caller shows
     * something else. Default: all changes are shown.
     */
    readonly silentWhile?: "building" | "always";
    /** Called if the app failed; may resolve to a hint that replaces the usual one. */
    readonly onFailure?: () => Promise<string | undefined>;
  },
): Promise<AppDetails> {
  if (options.silentWhile !== "always") await noteMissingEngine(cli, client, name);
  const abort = new AbortController();
  const progress =
    cli.io.errorIsTerminal && options.silentWhile !== "always"
      ? showProgress(cli, client, name, options.silentWhile, abort.signal)
      : Promise.resolve();
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

/**
 * Prints a note if the container engine does not answer: without a terminal, nothing else is printed until it answers.
 */
async function noteMissingEngine(cli: Cli, client: Client, name: string): Promise<void> {
  const { runtime } = await client.health();
  if (runtime === "connected") return;
  cli.note(
    `app/${name} waits for the container engine, which does not answer; \`berth doctor\` on the server shows why`,
  );
}

/** Waits until the app is deleted. Throws BerthError `timeout` if the app still exists after `timeoutMs`. */
export async function waitForAppDeleted(
  client: Client,
  name: string,
  timeoutMs: number,
): Promise<void> {
  if (await client.apps.waitDeleted(name, { timeoutMs })) return;
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
 * Describes the version that still serves requests although the newest one has failed; undefined if no version serves.
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
