import { BerthError } from "../../base/errors.ts";
import { ApiError } from "../../client/rest/api-error.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppDetails } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { timeoutError } from "../cli-errors.ts";
import { formatDurationMs } from "../format-time.ts";
import { ProgressLines } from "../output/progress-lines.ts";

/**
 * Waits until the app is as its generation wants it. On a terminal, every change of its message is
 * shown meanwhile, a pull with a bar. Throws BerthError with the reason when it failed, BerthError `timeout` when time was over.
 */
export async function waitForAppReady(
  cli: Cli,
  client: Client,
  name: string,
  options: {
    readonly timeoutMs: number;
    readonly generation?: number;
    readonly signal?: AbortSignal;
    /** When nothing is said of the app meanwhile, because something else does; default: never. */
    readonly silentWhile?: "building" | "always";
    /** Called where the app failed: what to try next, where that is another thing than usual. */
    readonly onFailure?: () => Promise<string | undefined>;
  },
): Promise<AppDetails> {
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
    throw appFailedError(name, error, await options.onFailure?.());
  } finally {
    abort.abort();
    await progress;
  }
}

/** Throws BerthError `timeout` when the app is still there when the time is over. */
export async function waitForAppDeleted(
  client: Client,
  name: string,
  timeoutMs: number,
): Promise<void> {
  if (await client.apps.waitDeleted(name, { timeoutMs })) return;
  throw timeoutError(
    `app "${name}" is still being deleted after ${formatDurationMs(timeoutMs)}`,
    `\`berth describe ${name}\` tells what holds it`,
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
  const lines = new ProgressLines((text) => cli.io.writeError(text), cli.errorColours.dim);
  const showChange = async () => {
    const app = await client.apps.get(name, signal);
    const text = `${app.status}: ${app.message}`;
    if (app.status === silentWhile) return;
    if (text !== last && !signal.aborted) lines.show(`${name} ${text}`);
    last = text;
  };
  try {
    for await (const change of client.events.watch({ kind: "App", name, signal })) {
      if (change.reset || change.type === "status") await showChange();
    }
  } catch {
    // The wait itself reports what matters; this is only for the eye.
  } finally {
    lines.end();
  }
}

/** The API's hint names a route; a person at a terminal needs the verb. */
function appFailedError(name: string, error: ApiError, hint: string | undefined): BerthError {
  const message = error.message.replace(/\.? See GET \S+ and its logs\.?$/, "");
  return new BerthError("wrong_state", message, {
    hint: hint ?? `\`berth describe ${name}\` and \`berth logs ${name}\``,
    cause: error,
  });
}
