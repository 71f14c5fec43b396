import { deepEqual } from "../base/canonical.ts";
import { BerthError, ConflictError } from "../base/errors.ts";
import { ApiError } from "../client/rest/api-error.ts";
import type { AppDetails, CreateAppBody } from "../resources/wire/apps.ts";
import { changeAnswer, findApp, progressOf } from "./app-change.ts";
import { written } from "./run-tools.ts";
import { mergePatch, patched } from "./spec-difference.ts";
import type { ToolAnswer, ToolArguments, ToolContext } from "./tool-answer.ts";
import type { AppSnapshot, UndoRecord } from "./undo-records.ts";

/** Takes back what a call did. May be called again where it failed, or was cut off: it goes on from what is there. */
export async function restoreApp(args: ToolArguments, context: ToolContext): Promise<ToolAnswer> {
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
  if (before === null) return uncreate(record, now, context);
  if (after === null) return recreate(name, before, now, context);
  return unchange(name, before, after, now, context);
}

/** A call made the app: it goes, and so does what was made with it. */
async function uncreate(
  record: UndoRecord,
  now: AppDetails | null,
  context: ToolContext,
): Promise<ToolAnswer> {
  const { client, signal } = context;
  const { app: name, after, created } = record;
  if (now !== null && now.id !== after?.uid) throw anotherApp(name);
  // The app first: it refers to the others.
  if (now !== null) await gone(() => client.apps.delete(name, { signal }));
  for (const { kind, name: its } of created) {
    if (kind === "App") await gone(() => client.apps.delete(its, { signal }));
    if (kind === "Secret") await gone(() => client.resources.delete("Secret", its));
  }
  const isGone = await client.apps.waitDeleted(name, { timeoutMs: context.leftMs(), signal });
  return {
    text: isGone
      ? `app "${name}" is deleted, as it was not there before`
      : `app "${name}", which was not there before, is being deleted, which goes on`,
    structured: { name, deleted: isGone, also_deleted: created },
  };
}

/** A call deleted the app: it is made again. */
async function recreate(
  name: string,
  before: AppSnapshot,
  now: AppDetails | null,
  context: ToolContext,
): Promise<ToolAnswer> {
  const { client, signal } = context;
  if (now !== null && now.id === before.uid) {
    const isGone = await client.apps.waitDeleted(name, { timeoutMs: context.leftMs(), signal });
    if (!isGone)
      throw new ConflictError("wrong_state", `app "${name}" is still being deleted`, {
        hint: "the same again in a while",
      });
  } else if (now !== null && !deepEqual(now.spec, before.spec)) {
    throw anotherApp(name);
  }
  const isThere = now !== null && now.id !== before.uid;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the server told it, and checks it again
  const body = { name, labels: before.labels, ...before.spec } as CreateAppBody;
  const app = isThere ? now : written(await client.apps.create(body, { signal }));
  // Else somebody made it, or a call that was cut off, and which of them nobody knows.
  if (!isThere) await takeOver(before.uid, app.id, context);
  const progress = await progressOf(app, context);
  return changeAnswer(name, "there again", progress, {});
}

/**
 * An app that is there again is the same to whoever undoes what was before its deletion, under another uid.
 * Not so where the commit of before is only to be had by its revision, which went with the app.
 */
async function takeOver(from: string, to: string, { client, records }: ToolContext): Promise<void> {
  await records.changeEach((record) => {
    const { server, before, after } = record;
    if (server !== client.origin || after?.uid !== from) return undefined;
    if (before !== null && isOfGit(before.spec)) return undefined;
    return { ...record, after: { ...after, uid: to } };
  });
}

/** A call changed the app: what it changed is as it was, and what others changed since stays. */
async function unchange(
  name: string,
  before: AppSnapshot,
  after: AppSnapshot,
  now: AppDetails | null,
  context: ToolContext,
): Promise<ToolAnswer> {
  const { client, signal } = context;
  if (now === null)
    throw new ConflictError("wrong_state", `app "${name}" has been deleted in the meantime`);
  if (now.id !== after.uid) throw anotherApp(name);
  const wanted = patched({ ...now.spec }, mergePatch(after.spec, before.spec));
  let app = now;
  const held = isOfGit(before.spec) ? await heldAt(name, before.revision, context) : null;
  if (held !== null) app = held.app;
  const rest = mergePatch({ ...app.spec }, wanted);
  if (Object.keys(rest).length > 0) app = written(await client.apps.patch(name, rest, { signal }));
  const progress = await progressOf(app, context);
  return changeAnswer(name, "as it was before", progress, {
    changed: app.generation !== now.generation,
    // It does not follow its repository again until it is deployed.
    ...(held === null ? {} : { held_at_revision: before.revision }),
  });
}

/**
 * The spec of an app with a repository does not say which commit of it was there; its revision does. Null where
 * that is not to be had any more: then the newest commit has to do.
 */
async function heldAt(
  name: string,
  revision: number | null,
  { client, signal }: ToolContext,
): Promise<{ readonly app: AppDetails } | null> {
  if (revision === null) return null;
  try {
    return { app: written(await client.apps.rollback(name, revision, { signal })) };
  } catch (error) {
    const isGone =
      error instanceof ApiError && (error.code === "not_found" || error.code === "wrong_state");
    if (isGone) return null;
    throw error;
  }
}

function isOfGit({ source }: AppSnapshot["spec"]): boolean {
  return typeof source === "object" && source !== null && "git" in source;
}

async function gone(deleting: () => Promise<unknown>): Promise<void> {
  try {
    await deleting();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
}

function anotherApp(name: string): ConflictError {
  return new ConflictError("wrong_state", `app "${name}" is another one by now, and is left alone`);
}
