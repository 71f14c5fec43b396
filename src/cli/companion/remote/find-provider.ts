import { NotFoundError } from "../../../base/errors.ts";
import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import type { RemoteClient } from "../../../client/bus/remote-client.ts";
import { type ProviderRow, parseRemoteReport } from "../../../client/bus/remote-wire.ts";

/**
 * Returns the provider with this id. Throws NotFoundError, which suggests similar ids, if the companion has no such
 * provider.
 */
export async function findProvider(
  remote: RemoteClient,
  id: string,
  signal: AbortSignal,
): Promise<ProviderRow> {
  const { providers } = parseRemoteReport(await remote.state(signal));
  const found = providers.find((provider) => provider.id === id);
  if (found !== undefined) return found;
  const ids = providers.map((provider) => provider.id);
  throw new NotFoundError(
    `there is no provider "${id}"${formatSuggestion(id, ids)}`,
    "`berth remote` lists the providers; `berth remote add ID ADDRESS` adds one",
  );
}
