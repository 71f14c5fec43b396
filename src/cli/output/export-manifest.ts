import type { Kind, Manifest } from "../../resources/kinds.ts";
import { ORIGIN_ANNOTATION } from "../../resources/resource.ts";
import { STACK_LABEL } from "../../resources/stack.ts";
import type { ResourceView } from "../../resources/wire/resources.ts";

/** A manifest with the fields of a spec file. */
export interface ExportedManifest {
  readonly apiVersion: string;
  readonly kind: Kind;
  readonly metadata: Manifest["metadata"];
  readonly spec: ResourceView["spec"];
}

/** Returns the manifest that would create this resource, without its status and the fields that the server adds. */
export function exportManifest(resource: ResourceView): ExportedManifest {
  const { name, stack, annotations } = resource.metadata;
  const { [STACK_LABEL]: _stack, ...labels } = resource.metadata.labels;
  const own = Object.fromEntries(
    // Berth's own annotations are left out, because most are one-time requests, such as a restart. The annotation with
    // the template or import from which the app was made is kept.
    Object.entries(annotations).filter(
      ([key]) => key === ORIGIN_ANNOTATION || !key.startsWith("berth.dev/"),
    ),
  );
  return {
    apiVersion: resource.apiVersion,
    kind: resource.kind,
    metadata: {
      name,
      ...(stack === null ? {} : { stack }),
      ...(Object.keys(labels).length > 0 ? { labels } : {}),
      ...(Object.keys(own).length > 0 ? { annotations: own } : {}),
    },
    spec: resource.spec,
  };
}
