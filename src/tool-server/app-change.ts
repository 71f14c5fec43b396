import { getErrorMessage } from "../base/errors.ts";
import { ApiError } from "../client/rest/api-error.ts";
import type { AppDetails } from "../resources/wire/apps.ts";
import { sanitizeText } from "./sanitize-value.ts";
import type { ToolContext, ToolOutput } from "./tool-context.ts";
import type { AppSnapshot, UndoRecord } from "./undo-records.ts";

const MESSAGE_CHARS_MAX = 1_000;

/**
 * The state of an app after a write. The write itself has succeeded, so none of these states is an error of the call.
 */
export interface AppProgress {
  readonly state: "ready" | "stopped" | "failed" | "waiting";
  readonly message: string;
  readonly url: string | null;
}

/** Fetches an app; null if it does not exist. */
export async function findApp(
  name: string,
  { client, signal }: ToolContext,
): Promise<AppDetails | null> {
  try {
    return await client.apps.get(name, signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

export function takeSnapshot(app: AppDetails): AppSnapshot {
  const { id, spec, labels, revisions } = app;
  return { uid: id, spec: { ...spec }, labels, revision: revisions.attempted };
}

/**
 * Writes an app after storing its previous state, so that a reported write can be undone even if this process
 * crashes.
 */
export async function changeApp(
  name: string,
  before: AppDetails | null,
  context: ToolContext,
  write: () => Promise<{ app: AppDetails; created?: UndoRecord["created"] }>,
): Promise<{ readonly undoId: string; readonly app: AppDetails }> {
  const record: UndoRecord = {
    server: context.client.origin,
    app: name,
    before: before && takeSnapshot(before),
    created: [],
  };
  const undoId = await context.records.add(record);
  try {
    const { app, created = [] } = await write();
    await context.records.update(undoId, { ...record, after: takeSnapshot(app), created });
    return { undoId, app };
  } catch (error) {
    // The server refused the write, so nothing changed and the undo record is deleted. After any other error the
    // outcome is unknown.
    if (error instanceof ApiError) await context.records.remove(undoId);
    throw error;
  }
}

/**
 * Waits until the written generation of the app is ready, stopped or failed, or until the time of the tool call is
 * over.
 */
export async function waitForProgress(
  written: AppDetails,
  context: ToolContext,
): Promise<AppProgress> {
  const { name, generation } = written;
  try {
    const { app, timedOut } = await context.client.apps.waitReady(name, {
      timeoutMs: context.remainingMs(),
      generation,
      signal: context.signal,
    });
    const message = sanitizeText(app.message, MESSAGE_CHARS_MAX);
    if (timedOut) return { state: "waiting", message, url: app.url };
    return { state: app.spec.running === false ? "stopped" : "ready", message, url: app.url };
  } catch (error) {
    // A failed app does not make this tool call fail, because the call has written the app.
    const isFailed = error instanceof ApiError && error.status === 409;
    const message = sanitizeText(getErrorMessage(error), MESSAGE_CHARS_MAX);
    return { state: isFailed ? "failed" : "waiting", message, url: null };
  }
}

/** Creates the result of a write: its `action`, such as "deployed", and the state of the app. */
export function createChangeOutput(
  name: string,
  action: string,
  { state, message, url }: AppProgress,
  more: Readonly<Record<string, unknown>>,
): ToolOutput {
  const outcomes = {
    ready: `, and is ready${url === null ? "" : ` at ${url}`}`,
    stopped: ", and is stopped",
    failed: `, and has failed: ${message}`,
    waiting: `, but is not ready yet: ${message}`,
  } as const;
  const isReady = state === "ready" || state === "stopped";
  return {
    text: `app "${name}" is ${action}${outcomes[state]}`,
    structured: { name, state, ready: isReady, message, url, ...more },
  };
}
