import { findDifferences } from "../container-differences.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import {
  type ForeignContainer,
  getReplicaIndex,
  getSpecHash,
  isUp,
} from "./plan/observed-containers.ts";
import { buildKeptVersion, type ResolveAppInput } from "./resolve-app.ts";

/**
 * Lists the containers of earlier versions that another program has created or changed. They may serve for a long
 * time, for example while the image of the desired version cannot be obtained. Versions that cannot be computed any
 * more are left out: those whose Secrets have changed since, and those from before a restart by the user.
 */
export function listForeignOldContainers(
  input: ResolveAppInput,
  desiredHash: string | undefined,
  containers: readonly ObservedContainer[],
): readonly ForeignContainer[] {
  const { store, resource, memory } = input;
  const old = containers.filter(
    (container) => isUp(container) && getSpecHash(container) !== desiredHash,
  );
  return [...new Set(old.map(getSpecHash))].flatMap((hash) => {
    const number = memory.servedRevisions.find(({ version }) => version === hash)?.number;
    const kept =
      number === undefined ? undefined : store.revisions.get(resource.metadata.name, number);
    const version = kept && buildKeptVersion(input, kept, kept.spec);
    if (version?.hash !== hash) return [];
    return old
      .filter((container) => getSpecHash(container) === hash)
      .flatMap((container) => {
        const spec = version.containers[getReplicaIndex(container)];
        const differences = spec ? findDifferences(container, spec) : [];
        return differences.length === 0 ? [] : [{ container, differences }];
      });
  });
}
