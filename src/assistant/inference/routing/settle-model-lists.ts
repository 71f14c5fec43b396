import type { Clock } from "../../../base/clock.ts";
import type { ModelInfo } from "../service-port.ts";

/** A client waits for the list, so slow providers are left out of it. */
const REMOTE_MS_MAX = 5_000;

type Models = readonly ModelInfo[];

/**
 * Resolves to both lists. A list that fails is empty, and so is the remote one if it takes too long. Rejects with the
 * local error if there is no remote model either.
 */
export async function settleModelLists(
  lists: { readonly local: Promise<Models>; readonly remote: Promise<Models> },
  clock: Clock,
): Promise<{ readonly local: Models; readonly remote: Models }> {
  const [local, remote] = await Promise.allSettled([
    lists.local,
    withTimeLimit(lists.remote, clock),
  ]);
  const remoteModels = remote.status === "fulfilled" ? remote.value : [];
  if (local.status === "fulfilled") return { local: local.value, remote: remoteModels };
  if (remoteModels.length === 0) throw local.reason;
  return { local: [], remote: remoteModels };
}

/** Resolves to an empty list when the time is over. */
function withTimeLimit(models: Promise<Models>, clock: Clock): Promise<Models> {
  return new Promise((resolve, reject) => {
    const stop = clock.setTimer(REMOTE_MS_MAX, () => resolve([]));
    models.then(resolve, reject).finally(stop);
  });
}
