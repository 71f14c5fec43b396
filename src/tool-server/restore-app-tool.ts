import { deepEqual } from "../base/canonical-json.ts";
import { BerthError, ConflictError } from "../base/errors.ts";
import { ApiError } from "../client/rest/api-error.ts";
import type { AppDetails, CreateAppBody } from "../resources/wire/apps.ts";
import { createChangeOutput, findApp, waitForProgress } from "./app-change.ts";
import { applyMergePatch, createMergePatch } from "./merge-patch.ts";
import { requireWrittenApp } from "./run-app-tools.ts";
import type { ToolArguments, ToolContext, ToolOutput } from "./tool-context.ts";
import type { AppSnapshot, UndoRecord } from "./undo-records.ts";

/** Takes back what a call did. May be called again where it failed, or was cut off: it goes on from what is there. */
export async function restoreAppTool(
  args: ToolArguments,
  context: ToolContext,
): Promise<ToolOutput> {
  const name = String(args["name"]);
  const record = await context.records.get(String(args["undo_id"]));
  if (record.app !== name)
    throw new BerthError("invalid_request", `that call was about the app "${record.app}"`);
  if (record.server !== context.client.origin)
    throw new ConflictError(
      "wrong_state",
      `that call was made on another server: ${record.server}`,
    );
  const now = await findApp(name, context);
  const { before, after } = record;
  if (after === undefined)
    throw new ConflictError("wrong_state", "it is not known what that call came to", {
      hint: `see how app "${name}" is, and change it by hand`,
    });
  if (before === null) return undoCreation(record, now, context);
  if (after === null) return undoDeletion(name, before, now, context);
  return undoChange(name, before, after, now, context);
}

/** A call made the app: it goes, and so does what was made with it. */
async function undoCreation(
  record: UndoRecord,
  now: AppDetails | null,
  context: ToolContext,
): Promise<ToolOutput> {
  const { client, signal } = context;
  const { app: name, after, created } = record;
  if (now !== null && now.id !== after?.uid) throw replacedAppError(name);
  // The app first: it refers to the others.
  if (now !== null) await deleteIfPresent(() => client.apps.delete(name, { signal }));
  for (const { kind, name: its } of created) {
    if (kind === "App") await deleteIfPresent(() => client.apps.delete(its, { signal }));
    if (kind === "Secret") await deleteIfPresent(() => client.resources.delete("Secret", its));
  }
  const isGone = await client.apps.waitDeleted(name, { timeoutMs: context.remainingMs(), signal });
  return {
    text: isGone
      ? `app "${name}" is deleted, as it was not there before`
      : `app "${name}", which was not there before, is being deleted, which goes on`,
    structured: { name, deleted: isGone, also_deleted: created },
  };
}

/** A call deleted the app: it is made again. */
async function undoDeletion(
  name: string,
  before: AppSnapshot,
  now: AppDetails | null,
  context: ToolContext,
): Promise<ToolOutput> {
  const { client, signal } = context;
  if (now !== null && now.id === before.uid) {
    const isGone = await client.apps.waitDeleted(name, {
      timeoutMs: context.remainingMs(),
      signal,
    });
    if (!isGone)
      throw new ConflictError("wrong_state", `app "${name}" is still being deleted`, {
        hint: "the same again in a while",
      });
  } else if (now !== null && !deepEqual(now.spec, before.spec)) {
    throw replacedAppError(name);
  }
  const isThere = now !== null && now.id !== before.uid;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the server told it, and checks it again
  const body = { name, labels: before.labels, ...before.spec } as CreateAppBody;
  const app = isThere ? now : requireWrittenApp(await client.apps.create(body, { signal }));
  // Else somebody made it, or a call that was cut off, and which of them nobody knows.
  if (!isThere) await transferUndoRecords(before.uid, app.id, context);
  const progress = await waitForProgress(app, context);
  return createChangeOutput(name, "there again", progress, {});
}

/**
 * An app that is there again is the same to whoever undoes what was before its deletion, under another uid.
 * Not so where the commit of before is only to be had by its revision, which went with the app.
 */
async function transferUndoRecords(
  from: string,
  to: string,
  { client, records }: ToolContext,
): Promise<void> {
  await records.updateEach((record) => {
    const { server, before, after } = record;
    if (server !== client.origin || after?.uid !== from) return undefined;
    if (before !== null && hasGitSource(before.spec)) return undefined;
    return { ...record, after: { ...after, uid: to } };
  });
}

/** A call changed the app: what it changed is as it was, and what others changed since stays. */
async function undoChange(
  name: string,
  before: AppSnapshot,
  after: AppSnapshot,
  now: AppDetails | null,
  context: ToolContext,
): Promise<ToolOutput> {
  const { client, signal } = context;
  if (now === null)
    throw new ConflictError("wrong_state", `app "${name}" has been deleted in the meantime`);
  if (now.id !== after.uid) throw replacedAppError(name);
  const wanted = applyMergePatch({ ...now.spec }, createMergePatch(after.spec, before.spec));
  let app = now;
  const rolledBack = hasGitSource(before.spec)
    ? await rollBackToRevision(name, before.revision, context)
    : null;
  if (rolledBack !== null) app = rolledBack.app;
  const rest = createMergePatch({ ...app.spec }, wanted);
  if (Object.keys(rest).length > 0)
    app = requireWrittenApp(await client.apps.patch(name, rest, { signal }));
  const progress = await waitForProgress(app, context);
  return createChangeOutput(name, "as it was before", progress, {
    changed: app.generation !== now.generation,
    // It does not follow its repository again until it is deployed.
    ...(rolledBack === null ? {} : { held_at_revision: before.revision }),
  });
}

/**
 * The spec of an app with a repository does not say which commit of it was there; its revision does. Null where
 * that is not to be had any more: then the newest commit has to do.
 */
async function rollBackToRevision(
  name: string,
  revision: number | null,
  { client, signal }: ToolContext,
): Promise<{ readonly app: AppDetails } | null> {
  if (revision === null) return null;
  try {
    return { app: requireWrittenApp(await client.apps.rollback(name, revision, { signal })) };
  } catch (error) {
    const isGone =
      error instanceof ApiError && (error.code === "not_found" || error.code === "wrong_state");
    if (isGone) return null;
    throw error;
  }
}

function hasGitSource({ source }: AppSnapshot["spec"]): boolean {
  return typeof source === "object" && source !== null && "git" in source;
}

async function deleteIfPresent(deleteResource: () => Promise<unknown>): Promise<void> {
  try {
    await deleteResource();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
}

function replacedAppError(name: string): ConflictError {
  return new ConflictError("wrong_state", `app "${name}" is another one by now, and is left alone`);
}
