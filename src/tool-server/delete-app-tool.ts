import type { AppDetails } from "../resources/wire/apps.ts";
import { takeSnapshot } from "./app-change.ts";
import type { ToolArguments, ToolContext, ToolOutput } from "./tool-context.ts";

/** Deletes an app and waits until it no longer exists. Named volumes are kept, because no tool deletes data. */
export async function deleteAppTool(
  args: ToolArguments,
  context: ToolContext,
): Promise<ToolOutput> {
  const name = String(args["name"]);
  const { client, records, signal } = context;
  const before = await client.apps.get(name, signal);
  const volumes = before.data.map(({ type, name: place }) =>
    type === "volume" ? place : `folder ${place}`,
  );
  const irreversibleReason = findIrreversibleReason(before);
  const undoId = irreversibleReason === null ? await keepUndoRecord(before, context) : undefined;
  try {
    await client.apps.delete(name, { signal });
  } catch (error) {
    if (undoId !== undefined) await records.remove(undoId);
    throw error;
  }
  const isGone = await client.apps
    .waitDeleted(name, { timeoutMs: context.remainingMs(), signal })
    // The deletion continues even if the wait fails, so a failed wait is no error of this call.
    .catch(() => false);
  return {
    text: [
      isGone ? `app "${name}" is deleted` : `app "${name}" is still being deleted`,
      ...(volumes.length === 0 ? [] : [`its volumes stay: ${volumes.join(", ")}`]),
      ...(irreversibleReason === null ? [] : [`this cannot be undone: ${irreversibleReason}`]),
    ].join("; "),
    structured: {
      name,
      deleted: isGone,
      volumes_kept: volumes,
      // Without an undo_id the companion treats the call as one that cannot be undone.
      ...(undoId === undefined ? { not_undoable: irreversibleReason } : { undo_id: undoId }),
    },
  };
}

function keepUndoRecord(before: AppDetails, { client, records }: ToolContext): Promise<string> {
  return records.add({
    server: client.origin,
    app: before.name,
    before: takeSnapshot(before),
    after: null,
    created: [],
  });
}

/** Returns the reason why the app cannot be created again from its spec; null if it can. */
function findIrreversibleReason({ spec }: AppDetails): string | null {
  if (spec.source && "archive" in spec.source)
    return "the archive from which the app was built is deleted with the app; upload the archive again with `berth deploy`";
  return null;
}
