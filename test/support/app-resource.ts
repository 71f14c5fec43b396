import type { AppSpec } from "../../src/resources/app-spec.ts";
import { API_VERSION } from "../../src/resources/kinds.ts";
import {
  APP_FINALIZER,
  type Resource,
  type ResourceMetadata,
} from "../../src/resources/resource.ts";

/** Returns an App resource with this spec, as the store would return it. */
export function appResource(
  name: string,
  spec: AppSpec,
  metadata: Partial<ResourceMetadata> = {},
): Resource<"App"> {
  return {
    apiVersion: API_VERSION,
    kind: "App",
    metadata: {
      name,
      uid: `uid-${name}`,
      labels: {},
      annotations: {},
      generation: 1,
      resourceVersion: 1,
      creationTimestamp: "2030-01-01T00:00:00.000Z",
      deletionTimestamp: null,
      finalizers: [APP_FINALIZER],
      owners: {},
      managers: {},
      ...metadata,
    },
    spec,
    status: null,
  };
}
