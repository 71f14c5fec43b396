import type { Clock } from "../../../base/clock.ts";
import type { ModelInfo } from "../service-port.ts";

/** A list of models is looked at while somebody waits; a provider that is slow is left out of it. */
const REMOTE_MS_MAX = 5_000;

type Models = readonly ModelInfo[];

/**
 * Both lists; nothing in place of one that is not there, of the remote one also when it takes too long. Rejects
 * with the local side's error where there is no remote model either.
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

/** None when the time is up. */
function withTimeLimit(models: Promise<Models>, clock: Clock): Promise<Models> {
  return new Promise((resolve, reject) => {
    const stop = clock.setTimer(REMOTE_MS_MAX, () => resolve([]));
    models.then(resolve, reject).finally(stop);
  });
}
