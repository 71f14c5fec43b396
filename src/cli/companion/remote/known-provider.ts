import { NotFoundError } from "../../../base/errors.ts";
import { suggestion } from "../../../base/nearest.ts";
import type { RemoteClient } from "../../../client/bus/remote-client.ts";
import { type ProviderRow, remoteReport } from "../../../client/bus/remote-wire.ts";

/** Throws NotFoundError, with the nearest one, where the companion has no such provider. */
export async function knownProvider(
  remote: RemoteClient,
  id: string,
  signal: AbortSignal,
): Promise<ProviderRow> {
  const { providers } = remoteReport(await remote.state(signal));
  const found = providers.find((provider) => provider.id === id);
  if (found !== undefined) return found;
  const ids = providers.map((provider) => provider.id);
  throw new NotFoundError(
    `there is no provider "${id}"${suggestion(id, ids)}`,
    "`berth remote` lists them; `berth remote add ID ADDRESS` adds one",
  );
}
