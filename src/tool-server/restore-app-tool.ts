import { deepEqual } from "../base/canonical-json.ts";
import { BerthError, ConflictError } from "../base/errors.ts";
import { ApiError } from "../client/rest/api-error.ts";
import { applyMergePatch, createMergePatch } from "../resources/merge-patch.ts";
import type { AppDetails, CreateAppBody } from "../resources/wire/apps.ts";
import { createChangeOutput, findApp, waitForProgress } from "./app-change.ts";
import { requireWrittenApp } from "./run-app-tools.ts";
import type { ToolArguments, ToolContext, ToolOutput } from "./tool-context.ts";
import type { AppSnapshot, UndoRecord } from "./undo-records.ts";

/**
 * Undoes the effect of an earlier call. After a failure or an interruption the tool can be called again and then
 * continues.
 */
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
    throw new ConflictError("wrong_state", "the outcome of that call is unknown", {
      hint: `check the state of app "${name}", and change it by hand`,
    });
  if (before === null) return undoCreation(record, now, context);
  if (after === null) return undoDeletion(name, before, now, context);
  return undoChange(name, before, after, now, context);
}

/** Undoes the creation of an app: deletes it, and the resources that were created with it. */
async function undoCreation(
  record: UndoRecord,
  now: AppDetails | null,
  context: ToolContext,
): Promise<ToolOutput> {
  const { client, signal } = context;
  const { app: name, after, created } = record;
  if (now !== null && now.id !== after?.uid) throw replacedAppError(name);
  // The app is deleted before the Secrets that were created with it, because it refers to them.
  if (now !== null) await deleteIfPresent(() => client.apps.delete(name, { signal }));
  for (const { kind, name: its } of created) {
    if (kind === "App") await deleteIfPresent(() => client.apps.delete(its, { signal }));
    if (kind === "Secret") await deleteIfPresent(() => client.resources.delete("Secret", its));
  }
  const isGone = await client.apps.waitDeleted(name, { timeoutMs: context.remainingMs(), signal });
  return {
    text: isGone
      ? `app "${name}" is deleted, because it did not exist before`
      : `app "${name}", which did not exist before, is still being deleted`,
    structured: { name, deleted: isGone, also_deleted: created },
  };
}

/** Undoes the deletion of an app: creates it again. */
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
        hint: "try again later",
      });
  } else if (now !== null && !deepEqual(now.spec, before.spec)) {
    throw replacedAppError(name);
  }
  const isThere = now !== null && now.id !== before.uid;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the spec is the server's own, and is validated again
  const body = { name, labels: before.labels, ...before.spec } as CreateAppBody;
  const app = isThere ? now : requireWrittenApp(await client.apps.create(body, { signal }));
  // If an app with this name exists already, the user or an interrupted call has created it, so the undo records of the
  // deleted app are not transferred to it.
  if (!isThere) await transferUndoRecords(before.uid, app.id, context);
  const progress = await waitForProgress(app, context);
  return createChangeOutput(name, "created again", progress, {});
}

/**
 * Makes the undo records of a deleted app valid for the app that replaces it, which has another uid. Records that
 * identify the previous commit only by its revision are not changed, because the revision was deleted with the app.
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

/** Undoes the change of an app: restores the fields that the call changed, and keeps later changes to other fields. */
async function undoChange(
  name: string,
  before: AppSnapshot,
  after: AppSnapshot,
  now: AppDetails | null,
  context: ToolContext,
): Promise<ToolOutput> {
  const { client, signal } = context;
  if (now === null)
    throw new ConflictError("wrong_state", `app "${name}" was deleted in the meantime`);
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
  return createChangeOutput(name, "restored", progress, {
    changed: app.generation !== now.generation,
    // The app stays at the revision that was deployed again, and follows its repository again only after the next
    // deploy.
    ...(rolledBack === null ? {} : { held_at_revision: before.revision }),
  });
}

/**
 * Deploys a revision again with the commit of its repository, which the revision names and the spec does not. Resolves
 * to null if the revision is no longer available; the app then uses the newest commit.
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
  return new ConflictError(
    "wrong_state",
    `app "${name}" was replaced by another app of that name, and is left unchanged`,
  );
}
