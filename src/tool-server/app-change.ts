import { getErrorMessage } from "../base/errors.ts";
import { ApiError } from "../client/rest/api-error.ts";
import type { AppDetails } from "../resources/wire/apps.ts";
import { sanitizeText } from "./sanitize-value.ts";
import type { ToolContext, ToolOutput } from "./tool-context.ts";
import type { AppSnapshot, UndoRecord } from "./undo-records.ts";

const MESSAGE_CHARS_MAX = 1_000;

/** How far an app is, after a write. Written, so none of these is an error. */
export interface AppProgress {
  readonly state: "ready" | "stopped" | "failed" | "waiting";
  readonly message: string;
  readonly url: string | null;
}

/** The app as it is; null where there is none. */
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
 * Writes an app, with what was there before kept first: whatever becomes of this process, the write can be
 * taken back once its result has been told.
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
    // Refused, so that nothing was changed; else nobody knows.
    if (error instanceof ApiError) await context.records.remove(undoId);
    throw error;
  }
}

/** Waits until the app is as it was written, or has failed, or the time is over. */
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
    // The write stands all the same.
    const isFailed = error instanceof ApiError && error.status === 409;
    const message = sanitizeText(getErrorMessage(error), MESSAGE_CHARS_MAX);
    return { state: isFailed ? "failed" : "waiting", message, url: null };
  }
}

/** What is told of a write: `did` as "deployed", and how far it is. */
export function createChangeOutput(
  name: string,
  action: string,
  { state, message, url }: AppProgress,
  more: Readonly<Record<string, unknown>>,
): ToolOutput {
  const words = {
    ready: `, and is ready${url === null ? "" : ` at ${url}`}`,
    stopped: ", and is stopped",
    failed: `, and has failed: ${message}`,
    waiting: `, and is not ready yet, which may still come: ${message}`,
  } as const;
  const isReady = state === "ready" || state === "stopped";
  return {
    text: `app "${name}" is ${action}${words[state]}`,
    structured: { name, state, ready: isReady, message, url, ...more },
  };
}
