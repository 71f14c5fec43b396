import { canonicalJson } from "../base/canonical-json.ts";
import type { Kind, SpecOf } from "../resources/kinds.ts";
import { API_VERSION } from "../resources/kinds.ts";
import type { Resource } from "../resources/resource.ts";

/**
 * Returns the resource as it would be after `spec` and `addedAnnotations` are applied. The resource need not exist yet.
 */
export function buildDryRunResource<K extends Kind>(
  kind: K,
  name: string,
  stored: Resource<K> | undefined,
  spec: SpecOf[K],
  addedAnnotations: Readonly<Record<string, string>> = {},
): Resource<K> {
  if (stored) {
    const annotations = { ...stored.metadata.annotations, ...addedAnnotations };
    const changed =
      canonicalJson([stored.spec, stored.metadata.annotations]) !==
      canonicalJson([spec, annotations]);
    const generation = stored.metadata.generation + (changed ? 1 : 0);
    return { ...stored, spec, metadata: { ...stored.metadata, annotations, generation } };
  }
  return {
    apiVersion: API_VERSION,
    kind,
    metadata: {
      name,
      uid: "",
      labels: {},
      annotations: addedAnnotations,
      generation: 1,
      resourceVersion: 0,
      creationTimestamp: "",
      deletionTimestamp: null,
      finalizers: [],
      owners: {},
      managers: {},
    },
    spec,
    status: null,
  };
}
